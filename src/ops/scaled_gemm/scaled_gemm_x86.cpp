// int8 products by x86's instructions for bytes, unsigned by signed, four at once into 32 bits. x goes as
// x + 128, and sums begin at −128·Σ weight, so that they end exact.
//
//   vnni   AVX-512 VNNI (Cascade Lake, Ice Lake, Zen 4 and later): 8 rows by 3 vectors of 16 columns
//   amx    AMX-INT8 (Sapphire Rapids and later): 32 x 32 in four tiles of 16 rows by 64 bytes, the last 16
//          columns of a panel two tiles at a time; on the tiles' plain twin (cpu/amx.h) where that is asked for
#include <cstring>

#include "cpu/amx.h"
#include "cpu/isa.h"
#include "ops/scaled_gemm/scaled_gemm_int8.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tachy::ops::int8 {
namespace {

void take_row_plain(const int8_t* from, int64_t count, int64_t padded, void* to) {
  auto* out = static_cast<uint8_t*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(from[i] + 128);
  std::memset(out + count, 0, static_cast<size_t>(padded - count));
}

template <bool kTwoRows, bool kTwoColumns, class Tiles>
inline void amx_tile(Tiles& tiles, const Product& p, int64_t row, int64_t column) {
  const int64_t c_bytes = p.c_stride * 4, b_bytes = p.width * 4;
  int32_t *c0 = p.c + row * p.c_stride + column, *c1 = c0 + 16 * p.c_stride;
  // A stride of 0 gives all rows of a tile the same beginning.
  const int32_t* from0 = p.add ? c0 : p.begin + column;
  const int32_t* from1 = p.add ? c1 : p.begin + column;
  const int64_t from_bytes = p.add ? c_bytes : 0;
  tiles.template load<0>(from0, from_bytes);
  if constexpr (kTwoColumns) tiles.template load<1>(from0 + 16, from_bytes);
  if constexpr (kTwoRows) tiles.template load<2>(from1, from_bytes);
  if constexpr (kTwoRows && kTwoColumns) tiles.template load<3>(from1 + 16, from_bytes);
  const int8_t* b = p.panel + column * 4;
  const uint8_t* x0 = static_cast<const uint8_t*>(p.x) + row * p.x_stride;
  const uint8_t* x1 = x0 + 16 * p.x_stride;
  for (int64_t k = 0; k < p.depth; k += 64, b += 16 * b_bytes) {
    tiles.template load<6>(b, b_bytes);
    tiles.template load<4>(x0 + k, p.x_stride);
    tiles.template multiply_bytes<0, 4, 6>();
    if constexpr (kTwoColumns) {
      tiles.template load<7>(b + 64, b_bytes);
      tiles.template multiply_bytes<1, 4, 7>();
    }
    if constexpr (kTwoRows) {
      tiles.template load<5>(x1 + k, p.x_stride);
      tiles.template multiply_bytes<2, 5, 6>();
      if constexpr (kTwoColumns) tiles.template multiply_bytes<3, 5, 7>();
    }
  }
  tiles.template store<0>(c0, c_bytes);
  if constexpr (kTwoColumns) tiles.template store<1>(c0 + 16, c_bytes);
  if constexpr (kTwoRows) tiles.template store<2>(c1, c_bytes);
  if constexpr (kTwoRows && kTwoColumns) tiles.template store<3>(c1 + 16, c_bytes);
}

template <bool kTwoColumns, class Tiles>
void amx_columns(Tiles& tiles, const Product& p, int64_t column) {
  int64_t row = 0;
  for (; row + 16 < p.rows; row += 32) amx_tile<true, kTwoColumns>(tiles, p, row, column);
  if (row < p.rows) amx_tile<false, kTwoColumns>(tiles, p, row, column);
}

template <class Tiles>
void amx_product(const Product& p) {
  Tiles tiles;
  int64_t column = 0;
  for (; column + 32 <= p.width; column += 32) amx_columns<true>(tiles, p, column);
  if (column < p.width) amx_columns<false>(tiles, p, column);
}

constexpr Kernel kEmulated{.x_size = 1, .take_row = take_row_plain, .product = amx_product<cpu::PlainTiles>};

}  // namespace

#if defined(__x86_64__)
namespace {

#define TACHY_TARGET_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

TACHY_TARGET_VNNI void take_row(const int8_t* from, int64_t count, int64_t padded, void* to) {
  auto* out = static_cast<uint8_t*>(to);
  const __m512i top = _mm512_set1_epi8(static_cast<char>(0x80));
  int64_t i = 0;
  for (; i + 64 <= count; i += 64)
    _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), top));
  for (; i < count; ++i) out[i] = static_cast<uint8_t>(from[i] + 128);
  for (; i < padded; ++i) out[i] = 0;
}

template <int kVectors>
TACHY_TARGET_VNNI inline void vnni_tile(const Product& p, int64_t row, int64_t column) {
  constexpr int kRows = 8;
  int32_t* c = p.c + row * p.c_stride + column;
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm512_loadu_si512(p.add ? c + r * p.c_stride + 16 * v : p.begin + column + 16 * v);
  const int8_t* b = p.panel + column * 4;
  const uint8_t* x = static_cast<const uint8_t*>(p.x) + row * p.x_stride;
  for (int64_t k = 0; k < p.depth; k += 4, b += p.width * 4) {
    __m512i right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + 64 * v);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int four;
      std::memcpy(&four, x + r * p.x_stride + k, 4);
      const __m512i left = _mm512_set1_epi32(four);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_si512(c + r * p.c_stride + 16 * v, sum[r][v]);
}

TACHY_TARGET_VNNI void vnni_product(const Product& p) {
  for (int64_t row = 0; row < p.rows; row += 8) {
    if (p.width == 48) vnni_tile<3>(p, row, 0);
    if (p.width == 32) vnni_tile<2>(p, row, 0);
    if (p.width == 16) vnni_tile<1>(p, row, 0);
  }
}

struct Abilities {
  bool amx = false, vnni = false;
  Abilities() {
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return;
    const uint64_t state = cpu::enabled_state();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    vnni = (state & 0xe6) == 0xe6 && (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1) &&
           (c >> 11 & 1);
    amx = vnni && cpu::has_tiles_of_bytes();
  }
};

const Abilities& abilities() {
  static const Abilities abilities;
  return abilities;
}

}  // namespace

std::optional<Refusal> why_not_vnni() {
  if (!abilities().vnni) return Refusal::machine("this CPU has no AVX-512 VNNI");
  if (cpu::isa() < Isa::avx512) return Refusal::machine("TACHY_ISA leaves no AVX-512 VNNI");
  return std::nullopt;
}

std::optional<Refusal> why_not_amx() {
  if (cpu::tiles_emulated()) return std::nullopt;
  if (!abilities().amx) return Refusal::machine("this CPU has no AMX-INT8");
  if (cpu::isa() != Isa::native) return Refusal::machine("TACHY_ISA leaves no AMX-INT8");
  return std::nullopt;
}

const Kernel& vnni() {
  static constexpr Kernel kernel{.x_size = 1, .take_row = take_row, .product = vnni_product};
  return kernel;
}
const Kernel& amx() {
  static constexpr Kernel kernel{
      .x_size = 1, .take_row = take_row, .product = amx_product<cpu::HardwareTiles>};
  return cpu::tiles_emulated() ? kEmulated : kernel;
}

#else

std::optional<Refusal> why_not_vnni() { return Refusal::machine("this CPU has no AVX-512 VNNI"); }
std::optional<Refusal> why_not_amx() {
  if (cpu::tiles_emulated()) return std::nullopt;
  return Refusal::machine("this CPU has no AMX-INT8");
}
const Kernel& vnni() { return simd(); }
const Kernel& amx() { return kEmulated; }

#endif

}  // namespace tachy::ops::int8
