// The part of a given video that is not made anew. After each step the latents there become the video's, with as
// much noise as the next step expects:  x = m·x + (1 - m)·((1 - sigma)·start + sigma·noise).  diffusers' inpainting
// pipelines do the same. After the last step sigma is 0, and the part is the video's own.
#pragma once

#include <span>

#include "nn/params.h"

namespace tachy {

class KeptPart {
 public:
  // start [z, T, h, w] f32 must outlive it. `anew` has m for [T, h, w], `noise` that with which the run began, for
  // [z, T, h, w]; neither is read on a measuring stream.
  KeptPart(const Tensor& start, std::span<const float> anew, std::span<const float> noise, Stream& stream);

  void put(const Tensor& latents, float sigma, Stream& stream) const;
  uint64_t bytes() const { return store_.bytes(); }

 private:
  nn::ParamStore store_;
  Tensor start_, noise_;  // [z, T, h, w]
  Tensor anew_, kept_;    // [T·h·w]: m and 1 - m
};

}  // namespace tachy
