#include "adapters/low_rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "adapters/low_rank.cpp"
#include <hwy/foreach_target.h>

#include "cpu/isa.h"
#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The number of rows that are summed in registers at once, because the four sums of a single row would wait
// for one another. This gives 16 sums with 32 registers, and 8 with 16.
inline constexpr int64_t kRows = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 4 : 2;

// Adds four vectors of columns to some rows.
template <int64_t Rows, class D>
HWY_INLINE void add_tile(D d, const float* b, const float* a, int64_t rank, int64_t columns,
                         hn::Vec<D> factor, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sums[Rows][4];
  for (int64_t i = 0; i < Rows; ++i)
    for (auto& sum : sums[i]) sum = hn::Zero(d);
  for (int64_t k = 0; k < rank; ++k) {
    const float* from = a + k * columns;
    const hn::Vec<D> v[4] = {hn::LoadU(d, from), hn::LoadU(d, from + lanes), hn::LoadU(d, from + 2 * lanes),
                             hn::LoadU(d, from + 3 * lanes)};
    for (int64_t i = 0; i < Rows; ++i) {
      const auto weight = hn::Set(d, b[i * rank + k]);
      for (int j = 0; j < 4; ++j) sums[i][j] = hn::MulAdd(weight, v[j], sums[i][j]);
    }
  }
  for (int64_t i = 0; i < Rows; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      float* to = out + i * columns + j * lanes;
      hn::StoreU(hn::MulAdd(factor, sums[i][j], hn::LoadU(d, to)), d, to);
    }
}

// Adds four vectors of columns to all rows. This part of A stays in the first-level cache.
template <class D>
HWY_INLINE void add_columns(D d, const float* b, const float* a, int64_t rows, int64_t rank, int64_t columns,
                            float scale, float* out) {
  const auto factor = hn::Set(d, scale);
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows)
    add_tile<kRows>(d, b + row * rank, a, rank, columns, factor, out + row * columns);
  for (; row < rows; ++row) add_tile<1>(d, b + row * rank, a, rank, columns, factor, out + row * columns);
}

void add_low_rank_all(const float* b, const float* a, int64_t rows, int64_t rank, int64_t columns,
                      float scale, float* out) {
  const hn::ScalableTag<float> d;
  const auto step = 4 * static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  for (; column + step <= columns; column += step)
    add_columns(d, b, a + column, rows, rank, columns, scale, out + column);
  const hn::CappedTag<float, 1> one;
  for (; column + 4 <= columns; column += 4)
    add_columns(one, b, a + column, rows, rank, columns, scale, out + column);
  for (; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) {
      auto sum = hn::Zero(one);
      for (int64_t k = 0; k < rank; ++k)
        sum = hn::MulAdd(hn::Set(one, b[row * rank + k]), hn::Set(one, a[k * columns + column]), sum);
      float& to = out[row * columns + column];
      to = hn::GetLane(hn::MulAdd(hn::Set(one, scale), sum, hn::Set(one, to)));
    }
}

}  // namespace tachy::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy {

HWY_EXPORT(add_low_rank_all);

void add_low_rank(const float* b, const float* a, int64_t rows, int64_t rank, int64_t columns, float scale,
                  float* out) {
  cpu::isa();  // no op calls this before
  HWY_DYNAMIC_DISPATCH(add_low_rank_all)(b, a, rows, rank, columns, scale, out);
}

}  // namespace tachy
#endif
