// What predicts in a denoising step. The loop (denoise_loop.h) knows the sampler, guidance, step cache,
// resuming and previews; how latents and a timestep become a velocity is a Denoiser's matter, and a new way
// of it is a new file:
//
//   clip_denoiser         the whole clip in one forward pass, perhaps with condition channels behind the
//                         latents'
//   first_frame_denoiser  the same, where latent frame 0 is given and stays at timestep 0
//   windows_denoiser      a long clip in overlapping windows, each as one of these two
//   causal_denoiser       a block of frames after those that it remembers, for rollout.h
//   experts_denoiser      two networks, one for the steps of high noise and one for the others
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tachy {

class Denoiser {
 public:
  virtual ~Denoiser() = default;

  // latents [z, T, h, w] → velocity [branches, z, T, h, w], all f32. Branch 0 sees the prompt, branch 1 the
  // negative prompt; the number of branches is the same in all steps of a part. `velocity` begins at the same
  // address in every step, so that the work may be captured in a graph.
  virtual void predict(const Tensor& latents, int step, const Tensor& velocity) = 0;

  // Puts what is given and never denoised (a fixed first frame) into x [z, T, h, w].
  virtual void put_given(const Tensor& x) const { (void)x; }

  // Which network predicts at a step, where there are several: guidance may differ between parts, and what
  // the step cache knows of one part does not hold for the next.
  virtual int part(int step) const {
    (void)step;
    return 0;
  }

  // Steps of one part and one kind are the same work, so a measure run need not walk all of them.
  virtual int kind(int step) const {
    (void)step;
    return 0;
  }

  // Of the Buffers that it holds beside the network's weights.
  virtual uint64_t bytes() const = 0;
};

}  // namespace tachy
