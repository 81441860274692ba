// Rotation of channel pairs for Highway code (rope): (a, b) → (a·cos − b·sin, a·sin + b·cos), optionally
// after multiplying by a factor and a weight. Include it inside the foreach_target part.

#if defined(TACHY_CPU_SIMD_ROTATE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_CPU_SIMD_ROTATE_H_
#undef TACHY_CPU_SIMD_ROTATE_H_
#else
#define TACHY_CPU_SIMD_ROTATE_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y[2p], y[2p + 1] for p in [0, pairs). weight may be null; y may be x.
HWY_INLINE void rotate_pairs(const float* x, float factor, const float* weight, const float* cos,
                             const float* sin, int64_t pairs, float* y) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t p = 0;
  for (; p + lanes <= pairs; p += lanes) {
    hn::Vec<decltype(d)> a, b;
    hn::LoadInterleaved2(d, x + 2 * p, a, b);
    a = hn::Mul(a, hn::Set(d, factor));
    b = hn::Mul(b, hn::Set(d, factor));
    if (weight) {
      hn::Vec<decltype(d)> u, v;
      hn::LoadInterleaved2(d, weight + 2 * p, u, v);
      a = hn::Mul(a, u);
      b = hn::Mul(b, v);
    }
    const auto c = hn::LoadU(d, cos + p), s = hn::LoadU(d, sin + p);
    const auto first = hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), second = hn::Add(hn::Mul(a, s), hn::Mul(b, c));
    hn::StoreInterleaved2(first, second, d, y + 2 * p);
  }
  for (; p < pairs; ++p) {
    float a = x[2 * p] * factor, b = x[2 * p + 1] * factor;
    if (weight) a *= weight[2 * p], b *= weight[2 * p + 1];
    y[2 * p] = a * cos[p] - b * sin[p];
    y[2 * p + 1] = a * sin[p] + b * cos[p];
  }
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
