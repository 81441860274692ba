#include "adapters/low_rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "adapters/low_rank.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four vectors of columns, all rows: that part of A stays in the first-level cache.
template <class D>
HWY_INLINE void add_columns(D d, const float* b, const float* a, int64_t rows, int64_t rank, int64_t columns,
                            float scale, float* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale);
  for (int64_t row = 0; row < rows; ++row) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (int64_t k = 0; k < rank; ++k) {
      const auto weight = hn::Set(d, b[row * rank + k]);
      const float* from = a + k * columns;
      s0 = hn::MulAdd(weight, hn::LoadU(d, from), s0);
      s1 = hn::MulAdd(weight, hn::LoadU(d, from + lanes), s1);
      s2 = hn::MulAdd(weight, hn::LoadU(d, from + 2 * lanes), s2);
      s3 = hn::MulAdd(weight, hn::LoadU(d, from + 3 * lanes), s3);
    }
    float* to = out + row * columns;
    hn::StoreU(hn::MulAdd(factor, s0, hn::LoadU(d, to)), d, to);
    hn::StoreU(hn::MulAdd(factor, s1, hn::LoadU(d, to + lanes)), d, to + lanes);
    hn::StoreU(hn::MulAdd(factor, s2, hn::LoadU(d, to + 2 * lanes)), d, to + 2 * lanes);
    hn::StoreU(hn::MulAdd(factor, s3, hn::LoadU(d, to + 3 * lanes)), d, to + 3 * lanes);
  }
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
  HWY_DYNAMIC_DISPATCH(add_low_rank_all)(b, a, rows, rank, columns, scale, out);
}

}  // namespace tachy
#endif
