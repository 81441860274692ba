// Backward of y = act(a) · b:  da = dy · b · act'(a),  db = dy · act(a).
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct GluBackwardArgs {
  Tensor a;   // [M, C] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor b;   // [M, C]; all tensors have one dtype
  Tensor dy;  // [M, C]
  Activation kind = Activation::gelu_tanh;
  Tensor da;  // [M, C], rows may be strided
  Tensor db;  // [M, C], rows may be strided
};

void glu_backward(const GluBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
