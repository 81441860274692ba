// The device's element types, their conversion to float32 and back, and the activations in float32.
// Everything computes in float32; a 16-bit value is only a storage format. Narrowing rounds to nearest even.
// With Fast, special functions are the hardware's (about 2^-21 relative error, far below half a unit of f16
// or bf16); without, they are the library's (1-2 ulp), which float32 tensors get.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace tachy::device {

using bf16 = __nv_bfloat16;
using f16 = __half;

__device__ __forceinline__ float as_float(float v) { return v; }
__device__ __forceinline__ float as_float(f16 v) { return __half2float(v); }
__device__ __forceinline__ float as_float(bf16 v) { return __bfloat162float(v); }

template <class T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float v) {
  return __float2bfloat16_rn(v);
}

// v rounded as a tensor of T would hold it.
template <class T>
__device__ __forceinline__ float rounded(float v) {
  return as_float(from_float<T>(v));
}

// The kinds are in the order of ops/activation_kind.h.
enum class Act { none, silu, gelu_tanh, gelu_erf, mish };

// The hardware's tanh, with a relative error of 2^-11.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <bool Fast>
__device__ __forceinline__ float sigmoid(float x) {
  if constexpr (Fast) return __fdividef(1.0f, 1.0f + __expf(-x));  // 1 + inf divides to 0
  return 1.0f / (1.0f + expf(-x));
}

// sigmoid(x) and 1 − sigmoid(x), both without cancellation.
struct Sigmoid {
  float value, rest;
  __device__ __forceinline__ explicit Sigmoid(float x) {
    const float e = expf(-fabsf(x)), high = 1.0f / (1.0f + e), low = e * high;
    value = x < 0 ? low : high, rest = x < 0 ? high : low;
  }
};

template <bool Fast>
__device__ __forceinline__ float activate(float x, Act kind) {
  switch (kind) {
    case Act::none:
      return x;
    case Act::silu:
      if constexpr (Fast) return x * sigmoid<true>(x);
      return x / (1.0f + expf(-x));
    case Act::gelu_tanh: {
      // 0.5x(1 + tanh t) = x · sigmoid(2t): no cancellation where x is very negative.
      const float inner = 0.79788456080286535588f * (x + 0.044715f * x * x * x);
      if constexpr (Fast) return x * sigmoid<true>(2.0f * inner);
      return 0.5f * x * (1.0f + tanhf(inner));
    }
    case Act::gelu_erf:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    case Act::mish: {
      // tanh(log(1 + e)) = n / (n + 2) with n = e(e + 2); above 20 it is 1 to every digit.
      const float most = fminf(x, 20.0f), e = Fast ? __expf(most) : expf(most), n = e * (e + 2.0f);
      return Fast ? x * __fdividef(n, n + 2.0f) : x * (n / (n + 2.0f));
    }
  }
  return x;
}

// The derivative d activate / dx.
template <bool Fast>
__device__ __forceinline__ float activate_slope(float x, Act kind) {
  switch (kind) {
    case Act::none:
      return 1;
    case Act::silu: {
      if constexpr (!Fast) {
        const Sigmoid s(x);
        return s.value * fmaf(x, s.rest, 1.0f);
      }
      const float s = sigmoid<Fast>(x);
      return s * (1.0f + x * (1.0f - s));
    }
    case Act::gelu_tanh: {
      // With t = tanh(inner) = 2s − 1: (1 + t)/2 = s and (1 − t²)/2 = 2s(1 − s).
      const float square = x * x, inner = 0.79788456080286535588f * x * fmaf(0.044715f, square, 1.0f);
      if constexpr (!Fast) {
        const Sigmoid both(2.0f * inner);
        return fmaf(x * 2.0f * both.value * both.rest,
                    0.79788456080286535588f * fmaf(0.134145f, square, 1.0f), both.value);
      }
      const float s = sigmoid<Fast>(2.0f * inner);
      return s + x * 2.0f * s * (1.0f - s) * 0.79788456080286535588f * fmaf(0.134145f, square, 1.0f);
    }
    case Act::gelu_erf: {
      const float bell = Fast ? __expf(-0.5f * x * x) : expf(-0.5f * x * x);
      return 0.5f * (1.0f + erff(x * 0.70710678118654752440f)) + x * 0.39894228040143267794f * bell;
    }
    case Act::mish: {
      if (x > 20.0f) return 1;
      const float e = Fast ? __expf(x) : expf(x), n = e * (e + 2.0f);
      const float t = Fast ? __fdividef(n, n + 2.0f) : n / (n + 2.0f);
      return t + x * (1.0f - t * t) * sigmoid<Fast>(x);
    }
  }
  return 1;
}

// Calls body(std::integral_constant<Act, kind>), so that a whole pack of values needs one branch.
template <class Body>
__device__ __forceinline__ void with_act(Act kind, Body&& body) {
  switch (kind) {
    case Act::none:
      return body(std::integral_constant<Act, Act::none>{});
    case Act::silu:
      return body(std::integral_constant<Act, Act::silu>{});
    case Act::gelu_tanh:
      return body(std::integral_constant<Act, Act::gelu_tanh>{});
    case Act::gelu_erf:
      return body(std::integral_constant<Act, Act::gelu_erf>{});
    case Act::mish:
      return body(std::integral_constant<Act, Act::mish>{});
  }
}

}  // namespace tachy::device
