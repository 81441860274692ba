// Predicts a clip that is longer than a model's own clips in windows of that length (context_windows.h) and
// blends their predictions. Every window is one forward pass of the same shape between the same tensors, so
// on a GPU one captured graph serves them all.
#pragma once

#include <memory>

#include "denoise/clip_denoiser.h"
#include "request/context_windows.h"

namespace tachy {

class WindowsDenoiser final : public Denoiser {
 public:
  struct Input {
    WindowPlan plan;
    ClipInput clip;          // describes the whole clip, including latent_shape and channels
    Tensor frame = {};       // [z, 1, h, w] f32: latent frame 0, if it is given (Wan2.2 TI2V)
    int64_t references = 0;  // the control's first frames, which are those of pictures (VACE)
  };
  WindowsDenoiser(const Input& in, Stream& stream);

  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void put_given(const Tensor& x) const override;
  int kind(int step) const override { return inner_->kind(step); }
  uint64_t bytes() const override { return store_.bytes() + inner_->bytes(); }

 private:
  void gather(const Tensor& clip, const Window& window, const Tensor& to) const;
  void add(std::span<const float> weights, const Window& window);

  WindowPlan plan_;
  int64_t frames_, references_;  // of the clip
  Stream& stream_;
  nn::ParamStore store_;
  Tensor frame_, channels_, control_;        // of the whole clip; undefined: none
  Tensor window_latents_, window_channels_;  // [z, W, h, w], [c, W, h, w]
  Tensor window_control_;
  Tensor window_velocity_;     // [branches, z, W, h, w]
  Tensor weights_, weighted_;  // [W], [W, z, branches, h, w]
  Tensor sum_;                 // [T, z, branches, h, w]
  std::unique_ptr<ClipDenoiser> inner_;
};

}  // namespace tachy
