#include "stages/footage.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/thread_pool.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/run_on_ranks.h"
#include "stages/condition.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

float from_byte(uint8_t v) { return 2.0f * (static_cast<float>(v) / 255.0f) - 1.0f; }

// Fills the pixels of a frame, [height, width, 3]. The processors share its rows: a GPU encodes a frame in less time
// than one of them needs to fill it.
using FrameOf = std::function<void(int64_t index, std::span<float> to, ThreadPool& pool)>;

void encode_frames(const VaeEncoder& vae, const Resolved& r, int64_t frames, const FrameOf& frame_of,
                   const Tensor& mean, Stream& stream, const EncodeRun& run, EqualFrames equal = {}) {
  const int64_t height = *r.request.height, width = *r.request.width;
  const ArenaScope scope(*stream.arena);
  const Tensor chunk =
      stream.arena->f32({std::min(frames, VaeEncoder::kChunkFrames * run.latents), height, width, 3});
  std::vector<float> values(stream.measuring() ? 0 : static_cast<size_t>(height * width * 3));
  const auto source = [&](int64_t first, int64_t count) {
    const Tensor part = chunk.slice(0, 0, count);
    for (int64_t i = 0; i < count && !stream.measuring(); ++i) {
      stream.throw_if_cancelled();
      frame_of(first + i, values, *stream.pool);
      upload(values.data(), part.select(0, i), stream);
    }
    return part;
  };
  runtime::run_on_rows(run.ranks, r.latent_height, stream, [&](Stream& own, runtime::Comm* comm) {
    vae.encode({frames, height, width}, source, mean, Tensor(), own, comm, equal, run.latents);
  });
}

uint64_t state_bytes(const VaeEncoder& vae, const Resolved& r, runtime::RankTeam* ranks) {
  return align_up(vae.state_bytes(*r.request.height, *r.request.width, r.clip_frames,
                                  runtime::ranks_of_rows(ranks, r.latent_height)));
}

// The picture that the clip has at this frame, if any.
const Picture* picture_at(const VideoRequest& r, int64_t i) {
  if (i == 0 && r.image) return r.image.get();
  return i + 1 == *r.frames ? r.last_image.get() : nullptr;
}

// The control's pixels and mask at each place of the clip.
class ControlVideo {
 public:
  explicit ControlVideo(const Resolved& r)
      : plan_(r.control), given_(*r.footage), r_(r.request), width_(*r_.width), height_(*r_.height) {}

  // Fills the frame's pixels whose m is `anew`; the others are 0.
  void fill(int64_t i, bool anew, std::span<float> to, ThreadPool& pool) const {
    std::ranges::fill(to, 0.0f);
    if (const Picture* picture = picture_at(r_, i)) {
      if (!anew) std::ranges::copy(pixels_of(*picture), to.begin());
      return;
    }
    if (!covers(i)) return;
    pool.run(plan_.bottom - plan_.top, [&](int64_t row, int) {
      const int64_t y = plan_.top + row;
      for (int64_t x = plan_.left; x < plan_.right; ++x) {
        if ((mask_inside(i, y, x) > 0.5f) != anew) continue;
        const size_t from = 3 * index_of(i, y, x), at = static_cast<size_t>(3 * (y * width_ + x));
        for (size_t c = 0; c < 3; ++c) to[at + c] = from_byte(given_.control[from + c]);
      }
    });
  }

  float mask(int64_t i, int64_t y, int64_t x) const {
    if (picture_at(r_, i)) return 0;
    const bool inside = covers(i) && y >= plan_.top && y < plan_.bottom && x >= plan_.left && x < plan_.right;
    return inside ? mask_inside(i, y, x) : 1;
  }

 private:
  bool covers(int64_t i) const { return i >= plan_.first && i < plan_.end; }
  size_t index_of(int64_t i, int64_t y, int64_t x) const {
    const int64_t rows = plan_.bottom - plan_.top, columns = plan_.right - plan_.left;
    return static_cast<size_t>(((i - plan_.first) * rows + y - plan_.top) * columns + x - plan_.left);
  }
  float mask_inside(int64_t i, int64_t y, int64_t x) const {
    if (given_.mask.empty()) return plan_.kept ? 0 : 1;
    return std::clamp((from_byte(given_.mask[index_of(i, y, x)]) + 1) / 2, 0.0f, 1.0f);
  }

  const ControlPlan& plan_;
  const ClipPixels& given_;
  const VideoRequest& r_;
  int64_t width_, height_;
};

// Fills mask [s², T, h, w].
void fill_masks(const ControlVideo& video, int64_t s, int64_t frames, const Tensor& mask, ThreadPool& pool) {
  const int64_t count = mask.dim(1), rows = mask.dim(2), columns = mask.dim(3);
  const float scale = static_cast<float>(frames) / static_cast<float>(count);
  pool.run(s * s, [&](int64_t c, int) {
    float* out = mask.as<float>() + c * count * rows * columns;
    for (int64_t t = 0; t < count; ++t) {
      const auto frame =
          std::min(static_cast<int64_t>(std::floor((static_cast<float>(t) + 0.5f) * scale)), frames - 1);
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x) *out++ = video.mask(frame, y * s + c / s, x * s + c % s);
    }
  });
}

}  // namespace

std::vector<int64_t> start_dims(const ResolvedRequest& r) {
  if (!r.request.video) return {};
  return {r.latent_channels, r.latent_frames, r.latent_height, r.latent_width};
}

void add_noise(const Tensor& start, float sigma, const Tensor& latents, Stream& stream) {
  ops::LincombArgs sum{.terms = {}, .count = 2, .out = latents};
  sum.terms[0] = {start, 1 - sigma}, sum.terms[1] = {latents, sigma};
  ops::lincomb(sum, stream);
}

bool keeps_part(const ResolvedRequest& r) {
  return r.request.video && r.request.mask_video && !r.request.control_video;
}

std::vector<float> start_mask(const VaeConfig& vae, const Resolved& r) {
  if (!keeps_part(r)) return {};
  const int64_t s = vae.spatial_stride(), frames = vae.temporal_stride(), h = r.latent_height,
                w = r.latent_width, width = w * s;
  std::vector<float> out(static_cast<size_t>(r.latent_frames * h * w));
  for (int64_t i = 0; i < r.clip_frames; ++i) {
    const int64_t t = (i + frames - 1) / frames;
    for (int64_t y = 0; y < h * s; ++y)
      for (int64_t x = 0; x < width; ++x)
        if (r.footage->mask[static_cast<size_t>((i * h * s + y) * width + x)] >= 128)
          out[static_cast<size_t>((t * h + y / s) * w + x / s)] = 1;
  }
  return out;
}

std::vector<int64_t> control_dims(const ModelBundle& model, const ResolvedRequest& r) {
  if (!r.control.follows) return {};
  return {model.dit.vace.in_channels, r.latent_frames, r.latent_height, r.latent_width};
}

EqualFrames gray_frames(const ResolvedRequest& r, bool anew) {
  const ControlPlan& plan = r.control;
  const bool masked = r.request.mask_video && r.request.control_video, shown = masked || plan.kept != anew;
  EqualFrames longest;
  for (int64_t i = 0, begin = 0; i < r.clip_frames; ++i) {
    const bool covered = i >= plan.first && i < plan.end;
    if (picture_at(r.request, i) ? !anew : covered && shown)
      begin = i + 1;
    else if (i + 1 - begin > longest.end - longest.begin)
      longest = {.begin = begin, .end = i + 1};
  }
  return longest;
}

uint64_t encode_start(const VaeEncoder& vae, const Resolved& r, const Tensor& start, Stream& stream,
                      const EncodeRun& run) {
  encode_frames(
      vae, r, r.clip_frames,
      [&](int64_t i, std::span<float> to, ThreadPool& pool) {
        const int64_t size = std::ssize(to), row = 3 * int64_t{*r.request.width};
        const uint8_t* frame = r.footage->start.data() + i * size;
        pool.run(size / row, [&](int64_t y, int) {
          std::transform(frame + y * row, frame + (y + 1) * row, to.data() + y * row, from_byte);
        });
      },
      start, stream, run);
  return state_bytes(vae, r, run.ranks);
}

uint64_t encode_control(const VaeEncoder& vae, const Resolved& r, const Tensor& control, Stream& stream,
                        const EncodeRun& run) {
  const int64_t z = r.latent_channels, before = r.control.references, all = r.latent_frames,
                s = vae.config().spatial_stride();
  std::optional<ControlVideo> video;
  if (!stream.measuring()) video.emplace(r);
  const ArenaScope scope(*stream.arena);
  const Tensor latents = stream.arena->f32({z, all - before, r.latent_height, r.latent_width}),
               one = stream.arena->f32({z, 1, r.latent_height, r.latent_width});
  zero(control, stream);
  const auto all_gray = [&](EqualFrames run) { return run.end - run.begin == r.clip_frames; };
  for (const bool anew : {false, true}) {
    const EqualFrames gray = gray_frames(r, anew);
    if (!anew || !all_gray(gray) || !all_gray(gray_frames(r, false)))  // otherwise it is the same video again
      encode_frames(
          vae, r, r.clip_frames,
          [&](int64_t i, std::span<float> to, ThreadPool& pool) { video->fill(i, anew, to, pool); }, latents,
          stream, run, gray);
    const int64_t channel = anew ? z : 0;
    ops::copy({.x = latents, .y = control.slice(0, channel, channel + z).slice(1, before, all)}, stream);
  }
  for (int64_t i = 0; i < before; ++i) {
    encode_frames(
        vae, r, 1,
        [&](int64_t, std::span<float> to, ThreadPool&) {
          std::ranges::copy(r.footage->references[static_cast<size_t>(i)], to.begin());
        },
        one, stream, run);
    const int64_t frame = before - 1 - i;
    ops::copy({.x = one, .y = control.slice(0, 0, z).slice(1, frame, frame + 1)}, stream);
  }
  const int64_t channels = s * s;
  const Tensor mask = stream.arena->f32({channels, all - before, r.latent_height, r.latent_width});
  if (video) {
    std::vector<float> values(static_cast<size_t>(mask.numel()));
    fill_masks(*video, s, r.clip_frames, Tensor(values.data(), DType::f32, mask.shape()), *stream.pool);
    upload(values.data(), mask, stream);
  }
  ops::copy({.x = mask, .y = control.slice(0, 2 * z, 2 * z + channels).slice(1, before, all)}, stream);
  return state_bytes(vae, r, run.ranks);
}

}  // namespace tachy
