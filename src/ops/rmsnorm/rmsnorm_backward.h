// Backward of y = n · weight, n = x·r, r = 1/sqrt(mean(x²) + eps):  with g = dy · weight
//   dx = r·(g − n·mean(g·n)),  dweight = Σ over rows of dy · n
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct RmsNormBackwardArgs {
  Tensor x;       // [M, C] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor weight;  // optional [C], all of one dtype (parameters and their gradients f32 on a GPU)
  Tensor dy;      // [M, C], rows may be strided
  float eps = 1e-6f;
  Tensor dx;       // [M, C], rows may be strided
  Tensor dweight;  // optional [C]
};

void rmsnorm_backward(const RmsNormBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
