// Backward of RMSNorm over all channels and rope on each head: it rotates back, then computes the norm's
// gradient.
//   s = ropeᵀ(dy),  g = s · weight,  dx = r·(g − n·mean(g·n)),  dweight = Σ over tokens of s·n
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct QkNormRopeBackwardArgs {
  Tensor x;       // [B, L, C] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor weight;  // optional [C]; all have one dtype (on a GPU parameters and their gradients are f32)
  float eps = 1e-6f;
  int heads = 1;
  Tensor cos;      // optional [L, D/2], D = C / heads; absent if there was no rope
  Tensor sin;      // optional [L, D/2]
  Tensor dy;       // [B, L, C], rows may be strided
  Tensor dx;       // [B, L, C], rows may be strided
  Tensor dweight;  // optional [C]
};

void qk_norm_rope_backward(const QkNormRopeBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
