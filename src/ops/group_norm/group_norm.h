// GroupNorm with the activation after it, for channels-last or channels-first activations:
//   n = (x − mean) / sqrt(var + eps) · weight + bias,  y = act(n)
// Mean and variance (biased) are over the P positions and the C/G neighbouring channels of a group, for each
// sample alone. A sample is everything that shares statistics: an image, or a clip whose frames are
// normalised together.
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct GroupNormArgs {
  Tensor x;  // [N, P, C] f32, contiguous; with channels_first [N, C, P]
  int groups = 32;
  Tensor weight;  // optional [C] f32
  Tensor bias;    // optional [C] f32
  float eps = 1e-5f;
  Activation act = Activation::none;  // silu and mish are the usual ones
  bool channels_first = false;
  Tensor y;  // like x, may alias it
};

void group_norm(const GroupNormArgs& args, Stream& stream);

}  // namespace tachy::ops
