// Exact widening to float. f16 goes through one multiplication by 2^112, which rebases normal and subnormal
// exponents alike and lets the compiler vectorise the loop; f8 has 256 values and takes a table.
#include "cpu/widen.h"

#include <array>
#include <cstring>

namespace tachy::cpu {
namespace {

template <class T>
std::array<float, 256> f8_table() {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i) table[i] = to_float(T{static_cast<uint8_t>(i)});
  return table;
}

void widen_bf16(const char* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
}

void widen_f16(const char* from, int64_t count, float* to) {
  const float rebase = std::bit_cast<float>(uint32_t{239} << 23);  // 2^112
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    uint32_t wide = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * rebase);
    if (magnitude >= (uint32_t{31} << 23)) wide = magnitude | 0x7f800000u;  // Inf and NaN keep their payload
    to[i] = std::bit_cast<float>(wide | sign);
  }
}

void widen_f8(const char* from, int64_t count, const std::array<float, 256>& table, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = table[static_cast<uint8_t>(from[i])];
}

}  // namespace

bool widens(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f8_e4m3 ||
         dtype == DType::f8_e5m2;
}

void widen(const void* from, DType dtype, int64_t count, float* to) {
  static const std::array<float, 256> e4m3 = f8_table<f8_e4m3_t>(), e5m2 = f8_table<f8_e5m2_t>();
  const char* p = static_cast<const char*>(from);
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, p, static_cast<size_t>(count) * 4);
      return;
    case DType::bf16:
      return widen_bf16(p, count, to);
    case DType::f16:
      return widen_f16(p, count, to);
    case DType::f8_e4m3:
      return widen_f8(p, count, e4m3, to);
    case DType::f8_e5m2:
      return widen_f8(p, count, e5m2, to);
    case DType::i8:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<int8_t>(p[i]));
      return;
    default:
      fail(ErrorCode::unsupported, "widen: expected f32, f16, bf16 or f8, got {}", dtype_name(dtype));
  }
}

}  // namespace tachy::cpu
