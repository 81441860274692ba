// Backward of rope, which rotates back: (a, b) → (a·cos + b·sin, b·cos − a·sin). The tables are constants.
#pragma once

#include "ops/rope/rope.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct RopeBackwardArgs {
  Tensor dy;   // [B, L, H, D] f32 or f64 (on a GPU f32, f16 or bf16), inner dim contiguous
  Tensor cos;  // [L, D/2]; all tensors have one dtype (on a GPU parameters and their gradients are f32)
  Tensor sin;  // [L, D/2]
  RopePairs pairs = RopePairs::adjacent;
  Tensor dx;  // [B, L, H, D], inner dim contiguous
};

void rope_backward(const RopeBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
