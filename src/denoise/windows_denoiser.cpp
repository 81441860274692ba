#include "denoise/windows_denoiser.h"

#include <algorithm>

#include "denoise/first_frame_denoiser.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Calls body(i, count, frame) for each run of a window's frames that follow each other in the clip; runs are
// as long as possible.
template <class Body>
void for_runs(const Window& window, Body&& body) {
  for (size_t i = 0; i < window.size();) {
    size_t end = i + 1;
    while (end < window.size() && window[end] == window[end - 1] + 1) ++end;
    body(static_cast<int64_t>(i), static_cast<int64_t>(end - i), window[i]);
    i = end;
  }
}

}  // namespace

WindowsDenoiser::WindowsDenoiser(const Input& in, Stream& stream)
    : plan_(in.plan),
      frames_(in.clip.latent_shape.at(1)),
      references_(std::min(in.references, in.plan.frames)),
      stream_(stream),
      store_({.shelf = in.clip.shelf}, stream),
      frame_(in.frame),
      channels_(in.clip.channels),
      control_(in.clip.control) {
  const int64_t z = in.clip.latent_shape.at(0), h = in.clip.latent_shape.at(2),
                w = in.clip.latent_shape.at(3), length = plan_.frames;
  const auto branches = static_cast<int64_t>(in.clip.texts.size());
  window_latents_ = store_.allocate(DType::f32, {z, length, h, w});
  window_velocity_ = store_.allocate(DType::f32, {branches, z, length, h, w});
  weights_ = store_.allocate(DType::f32, {length});
  weighted_ = store_.allocate(DType::f32, {length, z, branches, h, w});
  sum_ = store_.allocate(DType::f32, {frames_, z, branches, h, w});
  ClipInput clip = in.clip;
  clip.latent_shape[1] = length;
  if (channels_.defined()) {
    window_channels_ = store_.allocate(DType::f32, {channels_.dim(0), length, h, w});
    zero(window_channels_, stream_);
    clip.channels = window_channels_;
  }
  if (control_.defined()) {
    window_control_ = store_.allocate(DType::f32, {control_.dim(0), length, h, w});
    zero(window_control_, stream_);
    clip.control = window_control_;
  }
  if (frame_.defined())
    inner_ = std::make_unique<FirstFrameDenoiser>(clip, frame_, stream);
  else
    inner_ = std::make_unique<ClipDenoiser>(clip, stream);
}

void WindowsDenoiser::put_given(const Tensor& x) const {
  if (frame_.defined()) ops::copy({.x = frame_, .y = x.slice(1, 0, 1)}, stream_);
}

// Copies a window of clip [c, T, h, w] to `to` [c, W, h, w].
void WindowsDenoiser::gather(const Tensor& clip, const Window& window, const Tensor& to) const {
  for_runs(window, [&](int64_t i, int64_t count, int64_t frame) {
    ops::copy({.x = clip.slice(1, frame, frame + count), .y = to.slice(1, i, i + count)}, stream_);
  });
}

// Frames are the outermost axis of the sums, so frames that follow each other are one piece of memory.
void WindowsDenoiser::add(std::span<const float> weights, const Window& window) {
  upload(weights.data(), weights_, stream_);
  ops::copy({.x = window_velocity_.transpose(0, 2),
             .scale = weights_,
             .shift = {},
             .channel_axis = 0,
             .y = weighted_},
            stream_);
  for_runs(window, [&](int64_t i, int64_t count, int64_t frame) {
    const Tensor sum = sum_.slice(0, frame, frame + count);
    ops::LincombArgs args{.terms = {}, .count = 2, .out = sum};
    args.terms[0] = {sum, 1}, args.terms[1] = {weighted_.slice(0, i, i + count), 1};
    ops::lincomb(args, stream_);
  });
}

void WindowsDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  const std::vector<Window> windows = windows_of(plan_, frames_, step);
  const auto weights = blend_weights(plan_, frames_, windows);
  zero(sum_, stream_);
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    stream_.throw_if_cancelled();
    gather(latents, window, window_latents_);
    if (channels_.defined()) {
      gather(channels_, window, window_channels_);
      // A window begins like the clip: with the given picture, and the mask that marks it.
      ops::copy({.x = channels_.slice(1, 0, 1), .y = window_channels_.slice(1, 0, 1)}, stream_);
      inner_->put_channels(window_channels_);
    }
    if (control_.defined()) {
      gather(control_, window, window_control_);
      // Every window looks at the references: its first frames follow them, as in WanVideoWrapper.
      if (references_ > 0)
        ops::copy({.x = control_.slice(1, 0, references_), .y = window_control_.slice(1, 0, references_)},
                  stream_);
      inner_->put_control(window_control_);
    }
    const auto first = std::ranges::find(window, 0);
    inner_->place_first(first == window.end() ? -1 : first - window.begin());
    inner_->predict(window_latents_, step, window_velocity_);
    add(weights[i], window);
  }
  ops::copy({.x = sum_.transpose(0, 2), .y = velocity}, stream_);
}

}  // namespace tachy
