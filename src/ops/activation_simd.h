// The activations for Highway code, with the kind as a template argument, so that no loop branches. Include
// it inside the foreach_target part of a _cpu.cpp file: with_activation(kind, [&]<Activation K>() { …
// activate<K>(d, v) … }).

#if defined(TACHY_OPS_ACTIVATION_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_OPS_ACTIVATION_SIMD_H_
#undef TACHY_OPS_ACTIVATION_SIMD_H_
#else
#define TACHY_OPS_ACTIVATION_SIMD_H_
#endif

#include "cpu/simd_math.h"
#include "ops/activation_kind.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {

template <Activation K, class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V activate(D d, V x) {
  if constexpr (K == Activation::silu)
    return cpu::HWY_NAMESPACE::silu(d, x);
  else if constexpr (K == Activation::gelu_tanh)
    return cpu::HWY_NAMESPACE::gelu_tanh(d, x);
  else if constexpr (K == Activation::gelu_erf)
    return cpu::HWY_NAMESPACE::gelu_erf(d, x);
  else if constexpr (K == Activation::mish)
    return cpu::HWY_NAMESPACE::mish(d, x);
  else
    return x;
}

template <class Body>
HWY_INLINE void with_activation(Activation kind, Body&& body) {
  switch (kind) {
    case Activation::none:
      return body.template operator()<Activation::none>();
    case Activation::silu:
      return body.template operator()<Activation::silu>();
    case Activation::gelu_tanh:
      return body.template operator()<Activation::gelu_tanh>();
    case Activation::gelu_erf:
      return body.template operator()<Activation::gelu_erf>();
    case Activation::mish:
      return body.template operator()<Activation::mish>();
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
