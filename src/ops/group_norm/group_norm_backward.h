// Backward of y = act(n · weight + bias) with n = (x − mean)·r for each group.  With
// s = dy · act'(n·weight + bias), g = s · weight and means over the group's P·C/G values
//   dx = r·(g − mean(g) − n·mean(g·n)),  dweight = Σ s·n,  dbias = Σ s  over samples and positions
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct GroupNormBackwardArgs {
  Tensor x;  // [N, P, C] f32 or f64 (on a GPU f32, f16 or bf16), contiguous
  int groups = 32;
  Tensor weight;  // optional [C]; all have one dtype (on a GPU parameters and their gradients are f32)
  Tensor bias;    // optional [C]
  float eps = 1e-5f;
  Activation act = Activation::none;
  Tensor dy;       // [N, P, C], contiguous
  Tensor dx;       // [N, P, C], contiguous
  Tensor dweight;  // optional [C]
  Tensor dbias;    // optional [C]
};

void group_norm_backward(const GroupNormBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
