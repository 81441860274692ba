#include "stages/frame_colors.h"

#include <algorithm>

#include "base/profile_range.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

namespace {

// Calls put(from, to) with those of `frames` that belong to the tail, and their place in it.
template <class Put>
void for_tail(const Tensor& frames, int64_t first, int64_t total, const Tensor& tail, const Put& put) {
  if (!tail.defined()) return;
  const int64_t begin = std::max(first, total - tail.dim(0)), end = first + frames.dim(0);
  if (begin >= end) return;
  const int64_t to = begin - (total - tail.dim(0));
  put(frames.slice(0, begin - first, end - first), tail.slice(0, to, to + end - begin));
}

}  // namespace

void keep_tail(const Tensor& frames, int64_t first, int64_t total, const Tensor& tail, Stream& stream) {
  for_tail(frames, first, total, tail,
           [&](const Tensor& from, const Tensor& to) { ops::copy({.x = from, .y = to}, stream); });
}

Tensor correct_colors(const Tensor& frames, const FramesOut& out, Stream& stream) {
  if (out.color_correction == 0) return frames;
  const ProfileRange range(stream.hooks.profiler, "colours", ProfileKind::elementwise);
  Tensor own = frames;
  if (frames.dtype != DType::f32) {
    own = stream.arena->tensor(DType::f32, frames.shape());
    ops::copy({.x = frames, .y = own}, stream);
  }
  ops::MatchColorsArgs args{.x = own, .picture = out.picture, .strength = out.color_correction, .y = own};
  if (!stream.gpu) {
    ops::match_colors(args, stream);
  } else if (!stream.measuring()) {
    std::vector<float> values(static_cast<size_t>(own.numel()));
    download(own, values.data(), stream);
    args.x = args.y = Tensor(values.data(), DType::f32, own.shape());
    run_on_host(stream, [&](Stream& host) { ops::match_colors(args, host); });
    upload(values.data(), own, stream);
  }
  return own;
}

const uint8_t* LateColors::bytes_of(const Tensor& fetched, Stream& stream) {
  const ProfileRange range(stream.hooks.profiler, "colours", ProfileKind::output);
  bytes_.resize(static_cast<size_t>(fetched.numel()));
  run_on_host(stream, [&](Stream& host) {
    ops::match_colors(
        {.x = fetched, .picture = out_.picture, .strength = out_.color_correction, .y = fetched}, host);
    ops::to_rgb8(fetched, Tensor(bytes_.data(), DType::u8, fetched.shape()), host);
  });
  return bytes_.data();
}

void LateColors::keep_tail_of(const Tensor& fetched, int64_t first, Stream& stream) const {
  for_tail(fetched, first, frames_, out_.tail,
           [&](const Tensor& from, const Tensor& to) { upload(from.data, to, stream); });
}

}  // namespace tachy
