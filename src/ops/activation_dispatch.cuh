// Turns an op's activation into a kernel's template argument, for the .cu files of ops that have one.
#pragma once

#include "device/numeric.cuh"
#include "ops/activation_kind.h"

namespace tachy::ops {

// Calls body.operator()<device::Act::…>().
template <class Body>
void dispatch_act(Activation kind, Body&& body) {
  switch (kind) {
    case Activation::none:
      return body.template operator()<device::Act::none>();
    case Activation::silu:
      return body.template operator()<device::Act::silu>();
    case Activation::gelu_tanh:
      return body.template operator()<device::Act::gelu_tanh>();
    case Activation::gelu_erf:
      return body.template operator()<device::Act::gelu_erf>();
    case Activation::mish:
      return body.template operator()<device::Act::mish>();
  }
}

}  // namespace tachy::ops
