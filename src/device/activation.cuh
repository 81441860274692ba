// Activations and their slopes for tensors of T, for kernels that do little else. GELU by erf of 16-bit values has a
// form of its own here: erff and expf together take more instructions for a value than its bytes take time.
#pragma once

#include "device/numeric.cuh"

namespace tachy::device {

// The normal distribution's density and its tail: bell = exp(−x²/2), and Φ(−|x|) = bell · ratio. The ratio is a
// polynomial in 1 / (1 + 0.35·|x|), off by at most 6e-6 of itself, and by 3e-8 where it is multiplied by a bell that
// counts. So the tail keeps its digits where 1 + erf(x) would lose them, and both share one exponential.
struct NormalTail {
  float bell, ratio;
  __device__ __forceinline__ explicit NormalTail(float x) {
    bell = __expf(-0.5f * x * x);
    const float t = __fdividef(1.0f, fmaf(0.35f, fabsf(x), 1.0f));
    float sum = fmaf(t, 0.04411285815f, -0.18237942404f);
    sum = fmaf(t, sum, 0.20772691743f);
    sum = fmaf(t, sum, 0.01172297917f);
    sum = fmaf(t, sum, 0.14192262315f);
    sum = fmaf(t, sum, 0.13713950074f);
    sum = fmaf(t, sum, 0.13975457613f);
    ratio = t * sum;
  }
};

template <class T>
__device__ __forceinline__ float activation_of(float x, Act kind) {
  if constexpr (sizeof(T) == 2) {
    if (kind == Act::gelu_erf) {
      const NormalTail n(x);
      const float tail = n.bell * n.ratio;
      return x * (x < 0 ? tail : 1.0f - tail);
    }
  }
  return activate<sizeof(T) == 2>(x, kind);
}

template <class T>
__device__ __forceinline__ float slope_of(float x, Act kind) {
  if constexpr (sizeof(T) == 2) {
    if (kind == Act::gelu_erf) {
      // Φ(x) + x·φ(x) below zero, and 1 minus that of −x above.
      const NormalTail n(x);
      const float below = n.bell * fmaf(-0.39894228040143267794f, fabsf(x), n.ratio);
      return x < 0 ? below : 1.0f - below;
    }
  }
  return activate_slope<sizeof(T) == 2>(x, kind);
}

}  // namespace tachy::device
