// Scalar conversions are tested exhaustively: each narrow value is widened and compared with its definition,
// sign * mantissa * 2^exponent, and each widened value, and each midpoint between neighbours, is narrowed
// back.
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

namespace tachy {
namespace {

constexpr DType kAll[] = {DType::f32,     DType::f16, DType::bf16, DType::f8_e4m3,
                          DType::f8_e5m2, DType::f64, DType::i64,  DType::i32,
                          DType::i16,     DType::i8,  DType::u8,   DType::boolean};

// Returns the value of an IEEE-like format: `exponent_bits`, `mantissa_bits`, infinities and NaN at the top
// exponent.
double ieee_value(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1u ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  if (exponent == top) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

void expect_same(float got, double expected, uint32_t bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << bits;
    return;
  }
  EXPECT_EQ(double{got}, expected) << bits;
  EXPECT_EQ(std::signbit(got), std::signbit(expected)) << bits;
}

TEST(DType, SizesAndNames) {
  std::set<std::string> names;
  for (DType dtype : kAll) names.emplace(dtype_name(dtype));
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(dtype_size(DType::f64), 8);
  EXPECT_EQ(dtype_size(DType::f32), 4);
  EXPECT_EQ(dtype_size(DType::bf16), 2);
  EXPECT_EQ(dtype_size(DType::f8_e5m2), 1);
  EXPECT_EQ(dtype_size(DType::i64), 8);
  EXPECT_EQ(dtype_size(DType::i16), 2);
  EXPECT_EQ(dtype_size(DType::boolean), 1);
  EXPECT_TRUE(is_float(DType::f8_e4m3));
  EXPECT_TRUE(is_float(DType::f64));
  EXPECT_FALSE(is_float(DType::i64));
}

TEST(DType, WideningIsExact) {
  for (uint32_t b = 0; b < 65536; ++b) {
    expect_same(to_float(f16_t{static_cast<uint16_t>(b)}), ieee_value(b, 5, 10), b);
    expect_same(to_float(bf16_t{static_cast<uint16_t>(b)}), ieee_value(b, 8, 7), b);
  }
  for (uint32_t b = 0; b < 256; ++b) {
    expect_same(to_float(f8_e5m2_t{static_cast<uint8_t>(b)}), ieee_value(b, 5, 2), b);
    // This format has no infinities: only S.1111.111 is NaN, and the top exponent holds values up to 448.
    const double e4m3 = (b & 127) == 127        ? std::nan("")
                        : ((b >> 3) & 15) == 15 ? (b & 128 ? -1 : 1) * std::ldexp(8 + (b & 7), 5)
                                                : ieee_value(b, 4, 3);
    expect_same(to_float(f8_e4m3_t{static_cast<uint8_t>(b)}), e4m3, b);
  }
  EXPECT_EQ(to_float(f8_e4m3_t{0x7e}), 448.0f);
}

// Tests every finite value v with its upper neighbour w (same sign, larger magnitude). The cases are v
// itself, the midpoint, which rounds to the even one of the two, and the floats next to the midpoint.
template <class Narrow>
void expect_rounding(Narrow (*narrow)(float), int exponent_bits, int mantissa_bits) {
  const uint32_t top = ((1u << exponent_bits) - 1) << mantissa_bits;
  for (uint32_t sign : {0u, 0x8000u})
    for (uint32_t b = 0; b < top; ++b) {
      const auto v = static_cast<float>(ieee_value(sign | b, exponent_bits, mantissa_bits));
      ASSERT_EQ(narrow(v).bits, sign | b);
      const double low = ieee_value(b, exponent_bits, mantissa_bits);
      // Above the largest value, the step is the one of that value's exponent.
      const double high = b + 1 < top ? ieee_value(b + 1, exponent_bits, mantissa_bits)
                                      : 2 * low - ieee_value(b - 1, exponent_bits, mantissa_bits);
      const auto middle = static_cast<float>((low + high) / 2);
      if (double{middle} != (low + high) / 2) continue;  // the midpoint is finer than float can resolve
      const float s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(narrow(s * middle).bits, sign | (b + (b & 1u))) << "middle above " << low;
      ASSERT_EQ(narrow(s * std::nextafter(middle, 0.0f)).bits, sign | b);
      ASSERT_EQ(narrow(s * std::nextafter(middle, HUGE_VALF)).bits, sign | (b + 1));
    }
  EXPECT_EQ(narrow(HUGE_VALF).bits, top);
  EXPECT_EQ(narrow(-HUGE_VALF).bits, 0x8000u | top);
  EXPECT_EQ(narrow(std::numeric_limits<float>::max()).bits, top);  // rounds to infinity
  EXPECT_TRUE(std::isnan(to_float(narrow(std::nanf("")))));
  // The NaN's payload is in the dropped bits.
  EXPECT_TRUE(std::isnan(to_float(narrow(std::bit_cast<float>(0x7f800001u)))));
}

TEST(DType, NarrowingToHalfRoundsToNearestEven) { expect_rounding<f16_t>(to_f16, 5, 10); }
TEST(DType, NarrowingToBfloatRoundsToNearestEven) { expect_rounding<bf16_t>(to_bf16, 8, 7); }

}  // namespace
}  // namespace tachy
