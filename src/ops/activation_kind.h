// The activations that ops and their epilogues share.
#pragma once

namespace tachy::ops {

enum class Activation {
  none,
  silu,       // x · sigmoid(x)
  gelu_tanh,  // 0.5x(1 + tanh(sqrt(2/pi)(x + 0.044715x³)))
  gelu_erf,   // 0.5x(1 + erf(x / sqrt 2))
  mish,       // x · tanh(log(1 + exp(x)))
};

}  // namespace tachy::ops
