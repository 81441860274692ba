// int8 products by x86's instructions for bytes, which multiply unsigned by signed bytes, four at once into
// 32 bits. x is used as x + 128, and sums begin at −128·Σ weight, so that the results are exact.
//
//   vnni   AVX-512 VNNI (Cascade Lake, Ice Lake, Zen 4 and later): 8 rows by 3 vectors of 16 columns
//   amx    AMX-INT8 (Sapphire Rapids and later): 32 x 32 in four tiles of 16 rows by 64 bytes, the last 16
//          columns of a panel two tiles at a time; on plain code in place of tiles (cpu/amx.h) if that is
//          requested
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

// Prefetches lines that the next product reads, a few each time, so that they are in the
// second-level cache by then.
class Ahead {
 public:
  Ahead(const void* from, int64_t bytes) : at_(static_cast<const char*>(from)), end_(at_ + bytes) {}
  template <int kLines>
  void ask() {
    if (at_ >= end_) return;
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) __builtin_prefetch(at_ + 64 * i, 0, 2);
    at_ += 64 * kLines;
  }

 private:
  const char *at_, *end_;
};

// Multiplies 32 rows by two blocks; the four loads are issued before the four products that use them.
template <bool kTwoRows, bool kTwoBlocks, class Tiles>
inline void amx_tile(Tiles& tiles, const Product& p, int64_t row, int64_t block, Ahead& x, Ahead& weight) {
  const int64_t c_bytes = p.c_stride * 4, column = block * kColumns, x_stride = p.x_stride, depth = p.depth;
  int32_t *c0 = p.c + row * p.c_stride + column, *c1 = c0 + 16 * p.c_stride;
  // A stride of 0 gives all rows of a tile the same start values.
  const int32_t* from0 = p.add ? c0 : p.begin + column;
  const int32_t* from1 = p.add ? c1 : p.begin + column;
  const int64_t from_bytes = p.add ? c_bytes : 0;
  tiles.template load<0>(from0, from_bytes);
  if constexpr (kTwoBlocks) tiles.template load<1>(from0 + 16, from_bytes);
  if constexpr (kTwoRows) tiles.template load<2>(from1, from_bytes);
  if constexpr (kTwoRows && kTwoBlocks) tiles.template load<3>(from1 + 16, from_bytes);
  const int8_t *b0 = p.weight + block * p.block_step, *b1 = b0 + p.block_step;
  const uint8_t *x0 = static_cast<const uint8_t*>(p.x) + row * x_stride, *x1 = x0 + 16 * x_stride;
  for (int64_t k = 0; k < depth; k += 64) {
    tiles.template load<4>(x0 + k, x_stride);
    tiles.template load<6>(b0 + k * 16, 64);
    if constexpr (kTwoBlocks) tiles.template load<7>(b1 + k * 16, 64);
    if constexpr (kTwoRows) tiles.template load<5>(x1 + k, x_stride);
    tiles.template multiply_bytes<0, 4, 6>();
    x.ask<3>();
    if constexpr (kTwoBlocks) tiles.template multiply_bytes<1, 4, 7>();
    weight.ask<4>();
    if constexpr (kTwoRows) tiles.template multiply_bytes<2, 5, 6>();
    if constexpr (kTwoRows && kTwoBlocks) tiles.template multiply_bytes<3, 5, 7>();
  }
  tiles.template store<0>(c0, c_bytes);
  if constexpr (kTwoBlocks) tiles.template store<1>(c0 + 16, c_bytes);
  if constexpr (kTwoRows) tiles.template store<2>(c1, c_bytes);
  if constexpr (kTwoRows && kTwoBlocks) tiles.template store<3>(c1 + 16, c_bytes);
}

template <bool kTwoBlocks, class Tiles>
void amx_blocks(Tiles& tiles, const Product& p, int64_t block, Ahead& x) {
  int64_t row = 0;
  const int64_t bytes = p.depth * kColumns;
  const int8_t* const next = p.weight + block * p.block_step + bytes;
  for (; row < p.rows; row += 32) {
    // One row of tiles prefetches the next part of the first block, another row that of the second.
    Ahead weight(next + row / 32 % 2 * p.block_step, p.more && row < (kTwoBlocks ? 64 : 32) ? bytes : 0);
    if (row + 16 < p.rows)
      amx_tile<true, kTwoBlocks>(tiles, p, row, block, x, weight);
    else
      amx_tile<false, kTwoBlocks>(tiles, p, row, block, x, weight);
  }
}

template <class Tiles>
void amx_product(const Product& p) {
  Tiles tiles;
  Ahead x(static_cast<const uint8_t*>(p.x) + p.x_rows * p.x_stride, p.rows * p.x_stride);
  int64_t block = 0;
  for (; block + 2 <= p.blocks; block += 2) amx_blocks<true>(tiles, p, block, x);
  if (block < p.blocks) amx_blocks<false>(tiles, p, block, x);
}

// 768 values of K of two blocks are 24 KB; 384 rows and columns of that depth, with their sums, are 1.2 MB,
// 192 rows are 0.7 MB.
template <class Tiles>
constexpr Kernel amx_kernel(decltype(Kernel::take_row) take_row) {
  return {.x_size = 1,
          .rows = 192,
          .deep_rows = 384,
          .depth = 768,
          .blocks = 24,
          .take_row = take_row,
          .product = amx_product<Tiles>};
}

constexpr Kernel kEmulated = amx_kernel<cpu::PlainTiles>(take_row_plain);

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
TACHY_TARGET_VNNI inline void vnni_tile(const Product& p, int64_t row, int64_t block) {
  constexpr int kRows = 8;
  const int64_t column = block * kColumns;
  int32_t* c = p.c + row * p.c_stride + column;
  __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm512_loadu_si512(p.add ? c + r * p.c_stride + 16 * v : p.begin + column + 16 * v);
  const int8_t* b = p.weight + block * p.block_step;
  const uint8_t* x = static_cast<const uint8_t*>(p.x) + row * p.x_stride;
  for (int64_t k = 0; k < p.depth; k += 4, b += 64) {
    __m512i right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_si512(b + v * p.block_step);
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

// The loop over columns is outside: 512 values of K of three blocks are 24 KB, which stay
// in the first-level cache.
TACHY_TARGET_VNNI void vnni_product(const Product& p) {
  for (int64_t block = 0; block < p.blocks; block += 3)
    for (int64_t row = 0; row < p.rows; row += 8) {
      if (p.blocks - block >= 3) vnni_tile<3>(p, row, block);
      if (p.blocks - block == 2) vnni_tile<2>(p, row, block);
      if (p.blocks - block == 1) vnni_tile<1>(p, row, block);
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
  static constexpr Kernel kernel{.x_size = 1,
                                 .rows = 192,
                                 .deep_rows = 192,
                                 .depth = 512,
                                 .blocks = 12,
                                 .take_row = take_row,
                                 .product = vnni_product};
  return kernel;
}
const Kernel& amx() {
  static constexpr Kernel kernel = amx_kernel<cpu::HardwareTiles>(take_row);
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
