// Denoises a whole clip whose latent frame 0 is given (Wan2.2 TI2V): every forward pass sees that frame
// unchanged at timestep 0, while the other frames are at the step's timestep.
#pragma once

#include "denoise/clip_denoiser.h"

namespace tachy {

class FirstFrameDenoiser final : public ClipDenoiser {
 public:
  // `frame` is [z, 1, h, w] f32.
  FirstFrameDenoiser(const ClipInput& in, const Tensor& frame, Stream& stream);

  void put_given(const Tensor& x) const override;
  void place_first(int64_t frame) override;

 private:
  Tensor frame_;
  int64_t branches_, place_ = -2;  // place_ is where the frame lies; -1: nowhere, -2: not known yet
};

}  // namespace tachy
