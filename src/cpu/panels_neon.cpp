// The tile of 64-bit Arm for panels of bf16: 8 rows by 2 vectors of 4 columns. BFDOT multiplies pairs of k by
// one pair of a register that holds four, so that 16 loads serve 64 products. BFMMLA does twice as much per
// instruction on some CPUs, but needs panels with four k side by side, which is another layout.
#include "cpu/panels_neon.h"

#ifdef TACHY_NEON_BF16
#include <arm_neon.h>

#include "base/os/processors.h"

namespace tachy::cpu {
namespace {

#define TACHY_TARGET_ARM_BF16 __attribute__((target("arch=armv8.2-a+bf16")))

// Each left[r] holds four pairs. Multiplies number kPair of them by the pairs at b, which are those of
// kVectors vectors of four columns, and adds the products to `sum`.
template <int kPair, int kRows, int kVectors>
TACHY_TARGET_ARM_BF16 __attribute__((always_inline)) inline void neon_pair(
    const bfloat16x8_t (&left)[kRows], const uint16_t* b, float32x4_t (&sum)[kRows][kVectors]) {
  bfloat16x8_t right[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) right[v] = vreinterpretq_bf16_u16(vld1q_u16(b + 8 * v));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = vbfdotq_laneq_f32(sum[r][v], right[v], left[r], kPair);
}

template <int kRows, int kVectors>
TACHY_TARGET_ARM_BF16 inline void neon_tile(const PanelProduct& p, int64_t row, int64_t column) {
  float* c = p.c + row * p.c_stride + column;
  float32x4_t sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = p.add ? vld1q_f32(c + r * p.c_stride + 4 * v) : vdupq_n_f32(0);
  const auto* b = static_cast<const uint16_t*>(p.panel) + 2 * column;
  const int64_t step = 2 * p.width;  // distance in B from one pair of k to the next
  for (int64_t s = 0; s < p.segments; ++s) {
    const auto* x = static_cast<const uint16_t*>(p.x[s]) + row * p.x_stride;
    for (int64_t k = 0; k < p.depth; k += 8, b += 4 * step) {
      bfloat16x8_t left[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) left[r] = vreinterpretq_bf16_u16(vld1q_u16(x + r * p.x_stride + k));
      neon_pair<0>(left, b, sum);
      neon_pair<1>(left, b + step, sum);
      neon_pair<2>(left, b + 2 * step, sum);
      neon_pair<3>(left, b + 3 * step, sum);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) vst1q_f32(c + r * p.c_stride + 4 * v, sum[r][v]);
}

}  // namespace

TACHY_TARGET_ARM_BF16 void product_neon_bf16(const PanelProduct& p) {
  const int64_t rows = panel_rows(p.rows, Compute::bf16), columns = p.columns ? p.columns : p.width;
  int64_t column = 0;
  for (; column + 4 < columns; column += 8)
    for (int64_t row = 0; row < rows; row += 8) neon_tile<8, 2>(p, row, column);
  if (column < columns)
    for (int64_t row = 0; row < rows; row += 8) neon_tile<8, 1>(p, row, column);
}

bool has_neon_bf16() { return os::has_arm_bf16(); }

}  // namespace tachy::cpu
#endif
