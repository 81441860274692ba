// A register-blocked matrix product on packed panels, for Highway code: C[rows, NR] (+)=
// A[rows, K] · B[K, NR], where A is row-major, B is a panel of NR = panel_width() columns stored k-major, and
// rows is a multiple of tile_rows(). With 32 registers a tile is 12 rows by 2 vectors (24 sums, 2 of B, 1 of
// A), with 16 it is 6 by 2. The panel stays in the first-level cache while the rows of A stream past it.
// Include it inside the foreach_target part (not for SVE, because sums are arrays).

#if defined(TACHY_CPU_SIMD_TILE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_CPU_SIMD_TILE_H_
#undef TACHY_CPU_SIMD_TILE_H_
#else
#define TACHY_CPU_SIMD_TILE_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR
inline constexpr int kTileRows = 6;
#else
inline constexpr int kTileRows = 12;
#endif

inline int64_t panel_width() { return 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// One tile of kTileRows rows.
template <bool kAdd>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, int64_t a_stride, const float* HWY_RESTRICT b,
                              int64_t depth, float* HWY_RESTRICT c, int64_t c_stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V left[kTileRows], right[kTileRows];
#pragma GCC unroll 12
  for (int r = 0; r < kTileRows; ++r) {
    left[r] = kAdd ? hn::LoadU(d, c + r * c_stride) : hn::Zero(d);
    right[r] = kAdd ? hn::LoadU(d, c + r * c_stride + lanes) : hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes);
    b += 2 * lanes;
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
      const V value = hn::Set(d, a[r * a_stride + k]);
      left[r] = hn::MulAdd(value, b0, left[r]);
      right[r] = hn::MulAdd(value, b1, right[r]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kTileRows; ++r) {
    hn::StoreU(left[r], d, c + r * c_stride);
    hn::StoreU(right[r], d, c + r * c_stride + lanes);
  }
}

// Multiplies by `panels` panels of B, each depth · panel_width() values; their columns lie side by side in C.
template <bool kAdd>
HWY_INLINE void multiply_panels(const float* a, int64_t a_stride, int64_t rows, const float* b, int64_t depth,
                                int64_t panels, int64_t panel_stride, float* c, int64_t c_stride) {
  const int64_t width = panel_width();
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t r = 0; r < rows; r += kTileRows)
      multiply_tile<kAdd>(a + r * a_stride, a_stride, b + p * panel_stride, depth,
                          c + r * c_stride + p * width, c_stride);
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
