#include "tensor/dtype.h"

#include <algorithm>

namespace tachy {

int dtype_size(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    default:
      return 1;
  }
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f8_e4m3:
      return "f8_e4m3";
    case DType::f8_e5m2:
      return "f8_e5m2";
    case DType::f64:
      return "f64";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::i16:
      return "i16";
    case DType::i8:
      return "i8";
    case DType::u8:
      return "u8";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

bool is_float(DType dtype) { return dtype <= DType::f64; }

namespace {

// Rounds |v| to an 8-bit float with kMantissa bits whose smallest normal number is 2^kLowest. Smaller values
// become multiples of 2^(kLowest − kMantissa).
template <int kMantissa, int kLowest>
uint32_t f8_magnitude(uint32_t magnitude) {
  constexpr uint32_t shift = 23 - kMantissa, first_normal = static_cast<uint32_t>(kLowest + 127) << 23;
  if (magnitude < first_normal) {
    const float unit = static_cast<float>(1u << (kMantissa - kLowest));
    return static_cast<uint32_t>(std::nearbyint(std::bit_cast<float>(magnitude) * unit));
  }
  const uint32_t rounded = magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1u);
  return (rounded >> shift) - (static_cast<uint32_t>(kLowest + 126) << kMantissa);
}

}  // namespace

f8_e4m3_t to_f8_e4m3(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t code = std::min(f8_magnitude<3, -6>(bits & 0x7fffffffu), 0x7fu);
  return {static_cast<uint8_t>(((bits >> 24) & 0x80u) | code)};
}

f8_e5m2_t to_f8_e5m2(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), magnitude = bits & 0x7fffffffu;
  const uint32_t code = magnitude > 0x7f800000u ? 0x7fu : std::min(f8_magnitude<2, -14>(magnitude), 0x7cu);
  return {static_cast<uint8_t>(((bits >> 24) & 0x80u) | code)};
}

f16_t to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};   // NaN
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to infinity
  if (magnitude < 0x38800000u) {                                                 // subnormal half
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;              // exact: a power of two
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13))};
}

}  // namespace tachy
