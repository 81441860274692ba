// RMSNorm over the last dim: y = x / sqrt(mean(x²) + eps) · weight. Statistics in float32.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct RmsNormArgs {
  Tensor x;       // [M, C] f32, rows may be strided
  Tensor weight;  // optional [C] f32
  float eps = 1e-6f;
  Tensor y;  // [M, C] f32, rows may be strided, may alias x
};

void rmsnorm(const RmsNormArgs& args, Stream& stream);

}  // namespace tachy::ops
