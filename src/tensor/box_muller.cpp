// Cephes' polynomials for log, sine and cosine in float32, with a fused multiply-add wherever a product feeds one sum: so does
// the AVX2 code that torch ships, and bits are to match. Source: Cephes (Moshier).
#include "tensor/box_muller.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tachy {
namespace {

constexpr size_t kBlock = kBoxMullerBlock;

// Of the following no step is a branch, and there are no calls where the processor has FMA: eight values at a time then.
#define TACHY_INLINED [[gnu::always_inline]] inline

// ln of x in (0, 1].
TACHY_INLINED float cephes_log(float x) {
  const auto bits = std::bit_cast<uint32_t>(x < 0x1p-126f ? 0x1p-126f : x);
  const auto e = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const bool low = mantissa < 0.707106781186547524f;
  const float exponent = low ? e - 1.0f : e, f = low ? (mantissa - 1.0f) + mantissa : mantissa - 1.0f;
  float y = std::fma(
      7.0376836292e-2f, f,
      -1.1514610310e-1f);  // written out: a loop here would keep the one around it from being eight lanes wide
  y = std::fma(y, f, 1.1676998740e-1f);
  y = std::fma(y, f, -1.2420140846e-1f);
  y = std::fma(y, f, 1.4249322787e-1f);
  y = std::fma(y, f, -1.6668057665e-1f);
  y = std::fma(y, f, 2.0000714765e-1f);
  y = std::fma(y, f, -2.4999993993e-1f);
  y = std::fma(y, f, 3.3333331174e-1f);
  const float square = f * f;
  y = std::fma(y * f, square, exponent * -2.12194440e-4f) - square * 0.5f;
  return std::fma(exponent, 0.693359375f, f + y);
}

struct SinCos {
  float sin, cos;
};

// x in [0, 2 pi].
TACHY_INLINED SinCos cephes_sincos(float x) {
  const int octant = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  const auto multiple = static_cast<float>(octant);
  x = std::fma(multiple, -0.78515625f, x);  // pi/4 in three parts
  x = std::fma(multiple, -2.4187564849853515625e-4f, x);
  x = std::fma(multiple, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c =
      std::fma(std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z;
  c = std::fma(c, z, -(z * 0.5f)) + 1.0f;
  float s = std::fma(std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z;
  s = std::fma(s, x, x);
  const bool swapped = (octant & 2) != 0;
  const float sine = swapped ? c : s, cosine = swapped ? s : c;
  return {(octant & 4) != 0 ? -sine : sine, ((octant - 2) & 4) != 0 ? cosine : -cosine};
}

// Blocks of 16 uniforms to 16 normals: value j pairs with value j + 8.
TACHY_INLINED void to_normals(float* data, size_t blocks) {
  constexpr size_t kPairs = kBlock / 2;
  for (const float* end = data + blocks * kBlock; data != end; data += kBlock) {
    float radius[kPairs];
    for (size_t j = 0; j < kPairs; ++j) radius[j] = -2.0f * cephes_log(1.0f - data[j]);
    for (float& r : radius) r = std::sqrt(r);
    for (size_t j = 0; j < kPairs; ++j) {
      const SinCos angle = cephes_sincos(2.0f * std::numbers::pi_v<float> * data[j + kPairs]);
      data[j] = radius[j] * angle.cos;
      data[j + kPairs] = radius[j] * angle.sin;
    }
  }
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void to_normals_avx2(float* data, size_t blocks) { to_normals(data, blocks); }
#endif

}  // namespace

// The same bits either way: the C library's fma rounds once, too, but is a call for each.
void box_muller(float* data, size_t blocks) {
#ifdef __x86_64__
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fast) return to_normals_avx2(data, blocks);
#endif
  to_normals(data, blocks);
}

}  // namespace tachy
