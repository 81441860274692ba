// Element types and their scalar conversions (exact widening; narrowing rounds to nearest even).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tachy {

enum class DType : uint8_t { f32, f16, bf16, f8_e4m3, f8_e5m2, f64, i64, i32, i16, i8, u8, boolean };

int dtype_size(DType dtype);               // bytes per element
std::string_view dtype_name(DType dtype);  // "f32", "bf16" …
bool is_float(DType dtype);

struct bf16_t {
  uint16_t bits;
};
struct f16_t {
  uint16_t bits;
};
struct f8_e4m3_t {
  uint8_t bits;
};
struct f8_e5m2_t {
  uint8_t bits;
};

inline float to_float(float v) { return v; }
inline float to_float(bf16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

inline float to_float(f16_t v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 31u, mantissa = v.bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

inline float to_float(f8_e4m3_t v) {  // the "fn" variant: no infinities, NaN is S.1111.111
  const int exponent = (v.bits >> 3) & 15, mantissa = v.bits & 7;
  float magnitude;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7fc00000u);
  if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), -9);
  else
    magnitude = std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (v.bits & 0x80) ? -magnitude : magnitude;
}

inline float to_float(f8_e5m2_t v) { return to_float(f16_t{static_cast<uint16_t>(v.bits << 8)}); }

inline bf16_t to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

f16_t to_f16(float v);

// Like torch's .to(): a value that overflows becomes NaN in e4m3, which has no infinity, and infinity in
// e5m2. The quantising op saturates values itself.
f8_e4m3_t to_f8_e4m3(float v);
f8_e5m2_t to_f8_e5m2(float v);

}  // namespace tachy
