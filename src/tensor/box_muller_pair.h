// Turns two uniform numbers into two normal ones, with the bits of torch's CPU generator, on
// the host and on a GPU alike.
//
// It uses Cephes' polynomials (by Moshier) for log, sine and cosine in float32, with a fused multiply-add
// wherever a product feeds one sum. torch's AVX2 code does the same, and the bits have to match.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

// No step branches, and with FMA in the processor there are no calls, so the compiler can compute eight
// values at a time.
#ifdef __CUDACC__
#define TACHY_INLINED __host__ __device__ __forceinline__
#else
#define TACHY_INLINED [[gnu::always_inline]] inline
#endif

namespace tachy::box_muller_steps {

// Each of these rounds once. Without them, a GPU compiler would fuse a product with the sum after it.
#ifdef __CUDA_ARCH__
TACHY_INLINED float product(float a, float b) { return __fmul_rn(a, b); }
TACHY_INLINED float sum(float a, float b) { return __fadd_rn(a, b); }
TACHY_INLINED float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TACHY_INLINED float root(float x) { return __fsqrt_rn(x); }
TACHY_INLINED uint32_t bits_of(float x) { return __float_as_uint(x); }
TACHY_INLINED float of_bits(uint32_t bits) { return __uint_as_float(bits); }
#else
TACHY_INLINED float product(float a, float b) { return a * b; }
TACHY_INLINED float sum(float a, float b) { return a + b; }
TACHY_INLINED float fused(float a, float b, float c) { return std::fma(a, b, c); }
TACHY_INLINED float root(float x) { return std::sqrt(x); }
TACHY_INLINED uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
TACHY_INLINED float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
#endif

// ln(x) for x in (0, 1].
TACHY_INLINED float log_of(float x) {
  const uint32_t bits = bits_of(x < 0x1p-126f ? 0x1p-126f : x);
  const auto e = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  const float mantissa = of_bits((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const bool low = mantissa < 0.707106781186547524f;
  const float exponent = low ? sum(e, -1.0f) : e,
              f = low ? sum(sum(mantissa, -1.0f), mantissa) : sum(mantissa, -1.0f);
  // This is unrolled by hand, because a loop here would keep the enclosing loop from being vectorised.
  float y = fused(7.0376836292e-2f, f, -1.1514610310e-1f);
  y = fused(y, f, 1.1676998740e-1f);
  y = fused(y, f, -1.2420140846e-1f);
  y = fused(y, f, 1.4249322787e-1f);
  y = fused(y, f, -1.6668057665e-1f);
  y = fused(y, f, 2.0000714765e-1f);
  y = fused(y, f, -2.4999993993e-1f);
  y = fused(y, f, 3.3333331174e-1f);
  const float square = product(f, f);
  y = sum(fused(product(y, f), square, product(exponent, -2.12194440e-4f)), -product(square, 0.5f));
  return fused(exponent, 0.693359375f, sum(f, y));
}

struct SinCos {
  float sin, cos;
};

// Sine and cosine of x in [0, 2 pi].
TACHY_INLINED SinCos sin_cos_of(float x) {
  const int octant = (static_cast<int>(product(x, 1.27323954473516f)) + 1) & ~1;
  const auto multiple = static_cast<float>(octant);
  x = fused(multiple, -0.78515625f, x);  // pi/4, split into three parts
  x = fused(multiple, -2.4187564849853515625e-4f, x);
  x = fused(multiple, -3.77489497744594108e-8f, x);
  const float z = product(x, x);
  float c =
      product(fused(fused(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f), z);
  c = sum(fused(c, z, -product(z, 0.5f)), 1.0f);
  float s = product(fused(fused(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f), z);
  s = fused(s, x, x);
  const bool swapped = (octant & 2) != 0;
  const float sine = swapped ? c : s, cosine = swapped ? s : c;
  return {(octant & 4) != 0 ? -sine : sine, ((octant - 2) & 4) != 0 ? cosine : -cosine};
}

// Returns the radius for u in [0, 1).
TACHY_INLINED float radius_of(float u) { return root(product(-2.0f, log_of(sum(1.0f, -u)))); }
TACHY_INLINED SinCos direction_of(float u) {
  return sin_cos_of(product(2.0f * std::numbers::pi_v<float>, u));
}

}  // namespace tachy::box_muller_steps
