// int8 products in Highway, for CPUs without instructions for bytes: codes are widened to 16 bits, and pairs
// of them multiplied and added (pmaddwd on x86, smlal on Arm). No offset is needed. The file also has the
// epilogue of every kernel, in one source for all of them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scaled_gemm/scaled_gemm_simd.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/simd_math.h"
#include "cpu/simd_rows.h"
#include "ops/scaled_gemm/scaled_gemm_int8.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = tachy::cpu::HWY_NAMESPACE;

void int8_take_row(const int8_t* from, int64_t count, int64_t padded, void* to) {
  auto* out = static_cast<int16_t*>(to);
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<int8_t, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow, from + i)), d, out + i);
  for (; i < count; ++i) out[i] = from[i];
  std::fill(out + count, out + padded, int16_t{0});
}

#if HWY_TARGET == HWY_SCALAR
void int8_product(const int8::Product& p) {
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.blocks * int8::kColumns; ++j) {
      const int16_t* x = static_cast<const int16_t*>(p.x) + i * p.x_stride;
      const int8_t* b = p.weight + j / int8::kColumns * p.block_step + j % int8::kColumns * 4;
      int32_t sum = p.add ? p.c[i * p.c_stride + j] : 0;
      for (int64_t k = 0; k < p.depth; ++k) sum += x[k] * b[k / 4 * int8::kColumns * 4 + k % 4];
      p.c[i * p.c_stride + j] = sum;
    }
}
#else

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2
inline constexpr int kRows = 6, kVectors = 2;
#elif HWY_TARGET == HWY_NEON || HWY_TARGET == HWY_EMU128
inline constexpr int kRows = 4, kVectors = 2;  // each vector of columns has two vectors of sums
#else
inline constexpr int kRows = 8, kVectors = 2;
#endif

// A vector has four values of K for as many columns as it has groups of 64 bits. Its sums come in two parts
// per column, which are added at the end. Computes columns from `column` on, rows [row, row + kR).
template <int kR>
HWY_INLINE void int8_tile(const int8::Product& p, int64_t row, int64_t column) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::Repartition<int32_t, decltype(d16)> d32;
  const hn::Repartition<int64_t, decltype(d16)> d64;
  const hn::Half<decltype(d32)> half;
  using V = hn::Vec<decltype(d32)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d16)), columns = lanes / 4;
  V even[kR][kVectors], odd[kR][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) even[r][v] = odd[r][v] = hn::Zero(d32);
  const int16_t* x = static_cast<const int16_t*>(p.x) + row * p.x_stride;
  const int8_t* b = p.weight + column / int8::kColumns * p.block_step + column % int8::kColumns * 4;
  for (int64_t k = 0; k < p.depth; k += 4, b += int8::kColumns * 4) {
    hn::Vec<decltype(d16)> right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = hn::PromoteTo(d16, hn::LoadU(d8, b + v * lanes));
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      int64_t four;
      std::memcpy(&four, x + r * p.x_stride + k, 8);
      const auto left = hn::BitCast(d16, hn::Set(d64, four));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        even[r][v] = hn::ReorderWidenMulAccumulate(d32, right[v], left, even[r][v], odd[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const V pairs = hn::RearrangeToOddPlusEven(even[r][v], odd[r][v]);
      auto sums =
          hn::LowerHalf(half, hn::Add(hn::ConcatEven(d32, pairs, pairs), hn::ConcatOdd(d32, pairs, pairs)));
      int32_t* c = p.c + (row + r) * p.c_stride + column + v * columns;
      if (p.add) sums = hn::Add(sums, hn::LoadU(half, c));
      hn::StoreU(sums, half, c);
    }
}

void int8_product(const int8::Product& p) {
  const int64_t columns = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<int16_t>())) / 4 * kVectors;
  for (int64_t column = 0; column < p.blocks * int8::kColumns; column += columns) {
    int64_t row = 0;
    for (; row + kRows <= p.rows; row += kRows) int8_tile<kRows>(p, row, column);
    if (row + 4 <= p.rows) int8_tile<4>(p, row, column), row += 4;
    if (row + 2 <= p.rows) int8_tile<2>(p, row, column), row += 2;
    if (row < p.rows) int8_tile<1>(p, row, column);
  }
}
#endif

template <class Act>
void int8_row_with(const int8::FinishRow& r, Act&& act) {
  const bool past_caches =
      r.past_caches &&
      reinterpret_cast<uintptr_t>(r.y) % (sizeof(float) * hn::Lanes(hn::ScalableTag<float>())) == 0;
  math::for_lanes(r.count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto scale = hn::Mul(hn::Set(d, r.x_scale), hn::LoadU(d, r.weight_scale + i));
    auto v = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, r.t + i)), scale);
    if (r.bias) v = hn::Add(v, hn::LoadU(d, r.bias + i));
    if (r.addend) v = hn::Add(v, hn::LoadU(d, r.addend + i));
    v = act(d, v);
    past_caches ? hn::Stream(v, d, r.y + i) : hn::StoreU(v, d, r.y + i);
  });
}

void int8_finish_row(const int8::FinishRow& r) {
  switch (r.act) {
    case Activation::none:
      return int8_row_with(r, [](auto, auto v) HWY_ATTR { return v; });
    case Activation::silu:
      return int8_row_with(r, [](auto d, auto v) HWY_ATTR { return math::silu(d, v); });
    case Activation::gelu_tanh:
      return int8_row_with(r, [](auto d, auto v) HWY_ATTR { return math::gelu_tanh(d, v); });
    case Activation::gelu_erf:
      return int8_row_with(r, [](auto d, auto v) HWY_ATTR { return math::gelu_erf(d, v); });
    case Activation::mish:
      return int8_row_with(r, [](auto d, auto v) HWY_ATTR { return math::mish(d, v); });
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops::int8 {
HWY_EXPORT(int8_take_row);
HWY_EXPORT(int8_product);
HWY_EXPORT(int8_finish_row);

namespace {

void take_row(const int8_t* from, int64_t count, int64_t padded, void* to) {
  HWY_DYNAMIC_DISPATCH(int8_take_row)(from, count, padded, to);
}
void product(const Product& p) { HWY_DYNAMIC_DISPATCH(int8_product)(p); }

}  // namespace

const Kernel& simd() {
  static constexpr Kernel kernel{.x_size = 2,
                                 .rows = 192,
                                 .deep_rows = 192,
                                 .depth = 512,
                                 .blocks = 12,
                                 .take_row = take_row,
                                 .product = product};
  return kernel;
}

void finish_row(const FinishRow& row) { HWY_DYNAMIC_DISPATCH(int8_finish_row)(row); }

}  // namespace tachy::ops::int8
#endif
