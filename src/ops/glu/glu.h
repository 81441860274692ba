// The elementwise part of a gated linear unit: y = act(a) · b (GEGLU with a gelu, SwiGLU with silu).
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct GluArgs {
  Tensor a;  // [M, C] f32, rows may be strided: the activated half
  Tensor b;  // [M, C] f32, rows may be strided
  Activation kind = Activation::gelu_tanh;
  Tensor y;  // [M, C] f32, may alias a or b
};

void glu(const GluArgs& args, Stream& stream);

}  // namespace tachy::ops
