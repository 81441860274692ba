// The Highway code that norms over rows share: statistics of a row, and all of RMSNorm and LayerNorm. Include
// it inside the foreach_target part of a _cpu.cpp file, after cpu/simd_rows.h. After the first pass over a
// row, later passes find it in the first-level cache. If there is a mean, one pass computes it and one sums
// the squares about it (no cancellation); otherwise one pass sums the squares. Then one pass writes.

#if defined(TACHY_OPS_NORM_ROWS_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_OPS_NORM_ROWS_SIMD_H_
#undef TACHY_OPS_NORM_ROWS_SIMD_H_
#else
#define TACHY_OPS_NORM_ROWS_SIMD_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "ops/op_helpers.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {

HWY_INLINE float mean_of(const float* x, int64_t n) {
  const float sum = cpu::HWY_NAMESPACE::sum_lanes(
      n, [&](auto d, int64_t i) HWY_ATTR { return hwy::HWY_NAMESPACE::LoadU(d, x + i); });
  return sum / static_cast<float>(n);
}

// Returns Σ (x − mean)².
HWY_INLINE float sum_squares_about(const float* x, float mean, int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  return cpu::HWY_NAMESPACE::sum_lanes(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(v, v);
  });
}

// The factor by which a norm multiplies a row of n values.
HWY_INLINE float inverse_root(float squares, int64_t n, float eps) {
  return 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

// The arguments, as in rmsnorm.h and layernorm_modulate.h.
struct NormRows {
  const Tensor &x, &weight, &bias, &scale, &shift, &row;
  float eps;
  const Tensor& y;
};

// y = (x − mean) / sqrt(mean((x − mean)²) + eps) [· weight] [+ bias] [· (1 + scale[row]) + shift[row]]
// The mean is 0 unless kMean.
template <bool kMean>
HWY_INLINE void norm_rows(const NormRows& a, int64_t begin, int64_t end) {
  namespace hn = hwy::HWY_NAMESPACE;
  namespace simd = cpu::HWY_NAMESPACE;
  const int64_t c = a.x.dims[1];
  const float *w = row_ptr(a.weight, 0), *b = row_ptr(a.bias, 0);
  const auto* row = a.row.defined() && a.scale.defined() ? static_cast<const int32_t*>(a.row.data) : nullptr;
  const bool past = past_caches(a.x, a.y, c);
  simd::RowWriter writer(past, c);
  for (int64_t i = begin; i < end; ++i) {
    const float* x = row_ptr(a.x, i);
    const float *scale = row_ptr(a.scale, row ? row[i] : 0), *shift = row_ptr(a.shift, row ? row[i] : 0);
    float* const out = static_cast<float*>(a.y.data) + i * a.y.strides[0];
    float* const y = writer.begin(out);
    const float mean = kMean ? mean_of(x, c) : 0.0f;
    const float r = inverse_root(kMean ? sum_squares_about(x, mean, c) : simd::sum_squares(x, c), c, a.eps);
    // The row after this one is loaded while this row is read from the cache.
    const float* next = row_ptr(a.x, std::min(i + 1, end - 1));
    simd::for_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
      if (past) __builtin_prefetch(next + j, 0, 2);
      auto n = hn::LoadU(d, x + j);
      if constexpr (kMean) n = hn::Sub(n, hn::Set(d, mean));
      n = hn::Mul(n, hn::Set(d, r));
      if (w) n = hn::Mul(n, hn::LoadU(d, w + j));
      if (b) n = hn::Add(n, hn::LoadU(d, b + j));
      if (scale)
        n = hn::MulAdd(n, hn::Add(hn::Set(d, 1.0f), hn::LoadU(d, scale + j)), hn::LoadU(d, shift + j));
      hn::StoreU(n, d, y + j);
    });
    writer.end(out);
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
