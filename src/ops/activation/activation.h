// y = act(x) for each element, computed in float32.
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct ActivationArgs {
  Tensor x;  // any shape, contiguous f32
  Activation kind = Activation::silu;
  Tensor y;  // same shape, may alias x
};

void activation(const ActivationArgs& args, Stream& stream);

}  // namespace tachy::ops
