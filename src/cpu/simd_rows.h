// Row helpers for Highway code: loops over a row of floats by whole vectors and then by single lanes (never
// reading past its end), sums with four vectors of partial sums, and a 4x4 transpose. Include it inside the
// foreach_target part.

#if defined(TACHY_CPU_SIMD_ROWS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_CPU_SIMD_ROWS_H_
#undef TACHY_CPU_SIMD_ROWS_H_
#else
#define TACHY_CPU_SIMD_ROWS_H_
#endif

// The order matters: highway.h must come before its cache control.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(d, i) for every i at which a vector of d starts, and for the last few values with a one-lane d.
template <class Body>
HWY_INLINE void for_lanes(int64_t n, Body&& body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) body(one, i);
}

// Σ term(d, i) for i in [0, n), where term returns a vector. Sixteen or more partial sums keep the error
// small.
template <class Term>
HWY_INLINE float sum_lanes(int64_t n, Term&& term) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, term(d, i));
    b = hn::Add(b, term(d, i + lanes));
    c = hn::Add(c, term(d, i + 2 * lanes));
    e = hn::Add(e, term(d, i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Add(a, term(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) sum += hn::GetLane(term(one, i));
  return sum;
}

// The bits of the largest |x|, where infinity is above all numbers and NaN above that.
HWY_INLINE int32_t highest_magnitude(const float* x, int64_t n) {
  const hn::ScalableTag<int32_t> full;
  auto most = hn::Zero(full);
  int32_t last = 0;
  for_lanes(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto magnitude = hn::And(hn::BitCast(di, hn::LoadU(d, x + i)), hn::Set(di, 0x7fffffff));
    if constexpr (hn::MaxLanes(di) == hn::MaxLanes(full))
      most = hn::Max(most, magnitude);
    else
      last = std::max(last, hn::GetLane(magnitude));
  });
  return std::max(last, hn::GetLane(hn::MaxOfLanes(full, most)));
}

HWY_INLINE float sum_squares(const float* x, int64_t n) {
  return sum_lanes(n, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
}

// Writes the output of an op that is larger than the caches (op_helpers.h says when): a row is computed in a
// buffer of first-level size and then written past the caches. A plain store would read the line first, which
// is a third of a norm's memory traffic.
class RowWriter {
 public:
  static constexpr int64_t kMaxColumns = 8192;
  RowWriter(bool past_caches, int64_t columns) : columns_(past_caches ? columns : 0) {}
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter() {
    if (columns_) hwy::FlushStream();
  }
  float* begin(float* y) { return columns_ ? buffer_ : y; }  // where the row that goes to y is computed
  HWY_INLINE void end(float* y) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t j = 0; j < columns_; j += lanes) hn::Stream(hn::Load(d, buffer_ + j), d, y + j);
  }

 private:
  int64_t columns_;
  alignas(64) float buffer_[kMaxColumns];
};

#if HWY_TARGET != HWY_SCALAR
// Transposes 4x4 blocks that lie side by side in four rows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transpose_in_blocks(D d, V& r0, V& r1, V& r2, V& r3) {
  const hn::Repartition<double, D> dd;
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1)),
             b = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto c = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1)),
             e = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  r0 = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
  r1 = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
  r2 = hn::BitCast(d, hn::InterleaveLower(dd, c, e));
  r3 = hn::BitCast(d, hn::InterleaveUpper(dd, c, e));
}
#endif

// to[j][i] = from[i][j] for a 4x4 block.
HWY_INLINE void transpose_4x4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j) to[j * to_stride + i] = from[i * from_stride + j];
#else
  const hn::FixedTag<float, 4> d;
  auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + from_stride);
  auto r2 = hn::LoadU(d, from + 2 * from_stride), r3 = hn::LoadU(d, from + 3 * from_stride);
  transpose_in_blocks(d, r0, r1, r2, r3);
  hn::StoreU(r0, d, to);
  hn::StoreU(r1, d, to + to_stride);
  hn::StoreU(r2, d, to + 2 * to_stride);
  hn::StoreU(r3, d, to + 3 * to_stride);
#endif
}

// The same for a square block with as many rows as a vector has lanes, which reads each line of `from` once.
inline constexpr int64_t kSquare = HWY_TARGET == HWY_SCALAR ? 4 : hn::MaxLanes(hn::ScalableTag<float>());
HWY_INLINE void transpose_square(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  transpose_4x4(from, from_stride, to, to_stride);
#else
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kBlocks = static_cast<int>(kSquare / 4);
  V rows[kBlocks][4];  // block b of rows[g][q]: column 4·b + q of the four rows from 4·g on
#pragma GCC unroll 4
  for (int g = 0; g < kBlocks; ++g) {
    const auto row = [&](int i) HWY_ATTR { return hn::LoadU(d, from + (4 * g + i) * from_stride); };
    rows[g][0] = row(0), rows[g][1] = row(1), rows[g][2] = row(2), rows[g][3] = row(3);
    transpose_in_blocks(d, rows[g][0], rows[g][1], rows[g][2], rows[g][3]);
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const auto store = [&](int block, V v) HWY_ATTR { hn::StoreU(v, d, to + (4 * block + q) * to_stride); };
    if constexpr (kBlocks == 1) {
      store(0, rows[0][q]);
    } else if constexpr (kBlocks == 2) {
      store(0, hn::ConcatLowerLower(d, rows[1][q], rows[0][q]));
      store(1, hn::ConcatUpperUpper(d, rows[1][q], rows[0][q]));
    } else {
      const V low_even = hn::ConcatLowerLower(d, rows[2][q], rows[0][q]);
      const V low_odd = hn::ConcatLowerLower(d, rows[3][q], rows[1][q]);
      const V high_even = hn::ConcatUpperUpper(d, rows[2][q], rows[0][q]);
      const V high_odd = hn::ConcatUpperUpper(d, rows[3][q], rows[1][q]);
      store(0, hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low_odd), low_even));
      store(1, hn::OddEvenBlocks(low_odd, hn::SwapAdjacentBlocks(low_even)));
      store(2, hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high_odd), high_even));
      store(3, hn::OddEvenBlocks(high_odd, hn::SwapAdjacentBlocks(high_even)));
    }
  }
#endif
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
