// The float32 tile of panels.h in Highway, and the last step of products of either kind.
//
// With 32 registers a tile is 8 rows by 3 vectors: 24 sums, 3 vectors of B, and the value of X as a
// broadcast. It needs 11 loads for 24 multiply-adds, so two loads and two multiply-adds per cycle are nearly
// balanced. With 16 registers it is 6 rows by 2. Panels are 48 columns wide on every instruction set; shorter
// vectors take them in groups.
//
// Arm multiplies by one value of a register, so one load brings four values of a row: 6 rows by 3 vectors are
// 18 sums, 3 vectors of B and 6 of X, with 18 loads for 72 multiply-adds.
#include "cpu/panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/panels_f32.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR
inline constexpr int kRows = 6, kVectors = 2;
#elif HWY_ARCH_ARM
inline constexpr int kRows = 6, kVectors = 3;
#else
inline constexpr int kRows = 8, kVectors = 3;
#endif

// The number of rows of the tallest tile with that many vectors.
constexpr int tallest(int vectors) {
  if (HWY_ARCH_ARM) return vectors < 3 ? 8 : kRows;
  return vectors == 1 && kRows == 8 ? 16 : kRows;
}

#if HWY_ARCH_ARM
using V4 = hn::Vec<hn::ScalableTag<float>>;

// sum[r] += (value kLane of left[r]) · (kV vectors at b).
template <int kLane, int kR, int kV>
HWY_INLINE void multiply_lane(const V4 (&left)[kR], const float* HWY_RESTRICT b, V4 (&sum)[kR][kV]) {
  const hn::ScalableTag<float> d;
  V4 right[kV];
  hwy::Prefetch(b + 8 * 48);
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) right[v] = hn::LoadU(d, b + 4 * v);
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(hn::Broadcast<kLane>(left[r]), right[v], sum[r][v]);
}
#endif

// Computes columns [column, column + kV · lanes) of rows [row, row + kR).
template <int kR, int kV>
HWY_INLINE void tile(const PanelProduct& p, int64_t row, int64_t column) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* HWY_RESTRICT c = p.c + row * p.c_stride + column;
  V sum[kR][kV];
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kV; ++v)
      sum[r][v] = p.add ? hn::LoadU(d, c + r * p.c_stride + v * lanes) : hn::Zero(d);
  const float* HWY_RESTRICT b = static_cast<const float*>(p.panel) + column;
  const int64_t stride = p.x_stride, depth = p.depth, width = p.width;
  for (int64_t s = 0; s < p.segments; ++s) {
    const float* HWY_RESTRICT x = static_cast<const float*>(p.x[s]) + row * stride;
    int64_t k = 0;
#if HWY_ARCH_ARM
    for (; k + 4 <= depth; k += 4, b += 4 * width) {
      V left[kR];
#pragma GCC unroll 8
      for (int r = 0; r < kR; ++r) left[r] = hn::LoadU(d, x + r * stride + k);
      multiply_lane<0>(left, b, sum);
      multiply_lane<1>(left, b + width, sum);
      multiply_lane<2>(left, b + 2 * width, sum);
      multiply_lane<3>(left, b + 3 * width, sum);
    }
#endif
    for (; k < depth; ++k) {
      V right[kV];
#pragma GCC unroll 3
      for (int v = 0; v < kV; ++v) {
        right[v] = hn::LoadU(d, b + v * lanes);
        hwy::Prefetch(b + 8 * width + v * lanes);
      }
      b += width;
#pragma GCC unroll 16
      for (int r = 0; r < kR; ++r) {
        const V left = hn::Set(d, x[r * stride + k]);
#pragma GCC unroll 3
        for (int v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kV; ++v) hn::StoreU(sum[r][v], d, c + r * p.c_stride + v * lanes);
}

template <int kV>
void product(const PanelProduct& p, int64_t column) {
  int64_t row = 0;
  constexpr int kTallest = tallest(kV);
  if constexpr (kTallest != kRows)
    for (; row + kTallest <= p.rows; row += kTallest) tile<kTallest, kV>(p, row, column);
  for (; row + kRows <= p.rows; row += kRows) tile<kRows, kV>(p, row, column);
  if (row + 4 <= p.rows) tile<4, kV>(p, row, column), row += 4;
  if (row + 2 <= p.rows) tile<2, kV>(p, row, column), row += 2;
  if (row < p.rows) tile<1, kV>(p, row, column);
}

void product_f32(const PanelProduct& p) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  const int64_t group = kVectors * lanes;
  const int64_t width = p.columns ? (p.columns + lanes - 1) / lanes * lanes : p.width;
  int64_t column = 0;
  for (; column + group <= width; column += group) product<kVectors>(p, column);
  if (kVectors > 2 && column + 2 * lanes <= width) product<2>(p, column), column += 2 * lanes;
  for (; column < width; column += lanes) product<1>(p, column);
}

void finish(const PanelFinish& f) {
  for (int64_t i = 0; i < f.rows; ++i) {
    const float *c = f.c + i * f.c_stride, *residual = f.residual ? f.residual + i * f.y_stride : nullptr;
    float* y = f.y + i * f.y_stride;
    for_lanes(f.n, [&](auto d, int64_t o) HWY_ATTR {
      auto v = hn::LoadU(d, c + o);
      if (f.bias) v = hn::Add(v, hn::LoadU(d, f.bias + o));
      if (residual) v = hn::Add(v, hn::LoadU(d, residual + o));
      hn::StoreU(v, d, y + o);
    });
  }
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::cpu {

HWY_EXPORT(product_f32);
HWY_EXPORT(finish);

void finish_panels(const PanelFinish& f) { HWY_DYNAMIC_DISPATCH(finish)(f); }

void panel_product_f32(const PanelProduct& given) {
  PanelProduct p = given;
  for (int64_t i = 0; i < given.panels; ++i) {
    HWY_DYNAMIC_DISPATCH(product_f32)(p);
    p.panel = static_cast<const char*>(p.panel) + p.panel_step;
    p.c += p.width;
  }
}

}  // namespace tachy::cpu
#endif
