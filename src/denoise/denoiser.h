// The interface that predicts in a denoising step. The loop (denoise_loop.h) handles the sampler, guidance,
// step cache, resuming and previews; a Denoiser turns latents and a timestep into a velocity, and each new
// way to do so gets a new file:
//
//   clip_denoiser         the whole clip in one forward pass, perhaps with condition channels after the
//                         latents'
//   first_frame_denoiser  the same, with latent frame 0 given and kept at timestep 0
//   windows_denoiser      a long clip in overlapping windows, each as one of these two
//   causal_denoiser       a block of frames after those that it remembers, for rollout.h
//   experts_denoiser      two networks, one for the steps of high noise and one for the others
//   ranks_denoiser        several GPUs, with a denoiser of the others for each
//   ranks_causal          the same for blocks of frames
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace tachy {

class Denoiser {
 public:
  virtual ~Denoiser() = default;

  // Turns latents [z, T, h, w] into a velocity [branches, z, T, h, w], all f32. Branch 0 sees the prompt,
  // branch 1 the negative prompt; the number of branches is the same in all steps of a part. `velocity`
  // begins at the same address in every step, so that the work may be captured in a graph.
  virtual void predict(const Tensor& latents, int step, const Tensor& velocity) = 0;

  // Puts what is given and never denoised (a fixed first frame) into `x` [z, T, h, w].
  virtual void put_given(const Tensor& x) const { (void)x; }

  // Returns which network predicts at a step, if there are several: guidance may differ between parts, and
  // what the step cache knows of one part does not apply to the next.
  virtual int part(int step) const {
    (void)step;
    return 0;
  }

  // Steps of the same part and kind are the same work, so a measure run need not go through all of them.
  virtual int kind(int step) const {
    (void)step;
    return 0;
  }

  // Returns for which branches a step takes what the blocks added from an earlier step: bit b is branch b.
  // Known for the steps of the network that predicts now.
  virtual uint32_t reuses(int step) const {
    (void)step;
    return 0;
  }

  // Returns the bytes of the Buffers that it holds besides the network's weights.
  virtual uint64_t bytes() const = 0;
};

}  // namespace tachy
