// The activations in plain C++, for the definitions (_ref) of the ops that share them.
#pragma once

#include <cmath>

#include "ops/activation_kind.h"

namespace tachy::ops {

template <class Real>
Real activate(Real x, Activation kind) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::silu:
      return x / (Real(1) + std::exp(-x));
    case Activation::gelu_tanh: {
      const Real inner = Real(0.79788456080286535588) * (x + Real(0.044715) * x * x * x);
      return Real(0.5) * x * (Real(1) + std::tanh(inner));
    }
    case Activation::gelu_erf:
      return Real(0.5) * x * (Real(1) + std::erf(x * Real(0.70710678118654752440)));
  }
  return x;
}

}  // namespace tachy::ops
