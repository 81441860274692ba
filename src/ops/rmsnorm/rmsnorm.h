// RMSNorm over the last dim, optionally with a modulation that differs from token to token:
//   y = x / sqrt(mean(x²) + eps) [· weight] [· (1 + scale[row]) + shift[row]].   Statistics in float32.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct RmsNormArgs {
  Tensor x;       // [M, C] f32, rows may be strided
  Tensor weight;  // optional [C] f32; on a GPU it may also have the dtype of x and y if these are equal
  Tensor scale;   // optional [R, C] f32, rows may be strided; given together with shift
  Tensor shift;   // optional [R, C] f32, rows may be strided
  Tensor row;     // optional [M] i32: the row of scale and shift for each token, 0 by default
  float eps = 1e-6f;
  // Rounds to y's dtype before the weight, too; needs a weight and no modulation.
  bool round_twice = false;
  Tensor y;  // [M, C] f32, rows may be strided, may alias x
};

void rmsnorm(const RmsNormArgs& args, Stream& stream);

}  // namespace tachy::ops
