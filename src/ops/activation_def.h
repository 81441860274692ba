// The activations and their slopes in plain C++, for the definitions (_ref) of the ops that share them, and
// for kernels that compute in float64.
#pragma once

#include <cmath>

#include "ops/activation_kind.h"

#ifdef __CUDACC__
#define TACHY_HOST_DEVICE __host__ __device__
#else
#define TACHY_HOST_DEVICE
#endif

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
    case Activation::mish:
      return x * std::tanh(std::log1p(std::exp(x)));
  }
  return x;
}

// The derivative d activate / dx, for the backward passes.
template <class Real>
TACHY_HOST_DEVICE Real activate_slope(Real x, Activation kind) {
  const Real one = 1, sigmoid = one / (one + std::exp(-x));
  switch (kind) {
    case Activation::none:
      return one;
    case Activation::silu:
      return sigmoid * (one + x * (one - sigmoid));
    case Activation::gelu_tanh: {
      const Real root = Real(0.79788456080286535588), cubic = Real(0.044715);
      const Real t = std::tanh(root * (x + cubic * x * x * x));
      return Real(0.5) * (one + t) + Real(0.5) * x * (one - t * t) * root * (one + Real(3) * cubic * x * x);
    }
    case Activation::gelu_erf:
      return Real(0.5) * (one + std::erf(x * Real(0.70710678118654752440))) +
             x * Real(0.39894228040143267794) * std::exp(Real(-0.5) * x * x);
    case Activation::mish: {
      const Real t = std::tanh(std::log1p(std::exp(x)));
      return t + x * (one - t * t) * sigmoid;
    }
  }
  return one;
}

}  // namespace tachy::ops
