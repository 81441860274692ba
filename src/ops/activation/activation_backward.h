// Backward of y = act(x):  dx = dy · act'(x).
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct ActivationBackwardArgs {
  Tensor x;   // f32 or f64 (on a GPU f32, f16 or bf16), contiguous, any shape
  Tensor dy;  // like x
  Activation kind = Activation::silu;
  Tensor dx;  // like x
};

void activation_backward(const ActivationBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
