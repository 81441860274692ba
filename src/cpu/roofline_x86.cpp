// Register-only products of bf16 and of bytes on x86: AMX tiles (16x16x32 and 16x16x64, four sums in flight)
// or the dot products of AVX-512 BF16 and VNNI. They are intrinsics, because Highway 1.0 has none of these,
// and are chosen at run time by CPUID. Other CPUs have none.
#include "cpu/roofline.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>

#include "cpu/amx.h"
#include "cpu/isa.h"

namespace tachy::cpu {
namespace {

enum class Products { none, avx512, amx };

struct Detected {
  Products bf16 = Products::none, int8 = Products::none;
  Detected() {
    if (isa() < Isa::avx512) return;
    if (__builtin_cpu_supports("avx512bf16")) bf16 = Products::avx512;
    if (__builtin_cpu_supports("avx512vnni")) int8 = Products::avx512;
    if (isa() == Isa::native && has_tiles_of_bf16()) bf16 = Products::amx;
    if (isa() == Isa::native && has_tiles_of_bytes()) int8 = Products::amx;
  }
};

const Detected& detected() {
  static const Detected value;
  return value;
}

// `multiply` makes four products of tiles. Returns the number of all products made.
template <class Multiply>
double tile_rounds(int rounds, Multiply&& multiply) {
  HardwareTiles tiles;
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  tiles.zero<4>();
  tiles.zero<5>();
  tiles.zero<6>();
  tiles.zero<7>();
  for (int i = 0; i < rounds; ++i) multiply(tiles);
  return 4.0 * rounds;
}

double amx_bf16_rounds(int rounds) {
  return 2.0 * 16 * 16 * 32 * tile_rounds(rounds, [](HardwareTiles& tiles) {
           tiles.multiply_bf16<0, 4, 6>();
           tiles.multiply_bf16<1, 4, 7>();
           tiles.multiply_bf16<2, 5, 6>();
           tiles.multiply_bf16<3, 5, 7>();
         });
}

double amx_int8_rounds(int rounds) {
  return 2.0 * 16 * 16 * 64 * tile_rounds(rounds, [](HardwareTiles& tiles) {
           tiles.multiply_bytes<0, 4, 6>();
           tiles.multiply_bytes<1, 4, 7>();
           tiles.multiply_bytes<2, 5, 6>();
           tiles.multiply_bytes<3, 5, 7>();
         });
}

__attribute__((target("avx512f,avx512bf16"))) double avx512_bf16_rounds(int rounds) {
  const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f803f80), b = (__m512bh)_mm512_set1_epi32(0x3a003a00);
  __m512 s[12];
  for (auto& v : s) v = _mm512_setzero_ps();
  for (int i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) s[j] = _mm512_dpbf16_ps(s[j], a, b);
  __m512 sum = s[0];
  for (int j = 1; j < 12; ++j) sum = _mm512_add_ps(sum, s[j]);
  alignas(64) float values[16];
  _mm512_store_ps(values, sum);
  volatile float sink = values[0];
  (void)sink;
  return 12.0 * 2 * 32 * rounds;
}

__attribute__((target("avx512f,avx512vnni"))) double avx512_int8_rounds(int rounds) {
  const __m512i a = _mm512_set1_epi32(0x01010101), b = _mm512_set1_epi32(0x02fe0102);
  __m512i s[12];
  for (auto& v : s) v = _mm512_setzero_si512();
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) s[j] = _mm512_dpbusd_epi32(s[j], a, b);
  }
  __m512i sum = s[0];
  for (int j = 1; j < 12; ++j) sum = _mm512_add_epi32(sum, s[j]);
  alignas(64) int32_t values[16];
  _mm512_store_si512(values, sum);
  volatile int32_t sink = values[0];
  (void)sink;
  return 12.0 * 2 * 64 * rounds;
}

const char* name_of(Products products, const char* avx512) {
  return products == Products::amx ? "amx" : products == Products::avx512 ? avx512 : "";
}

}  // namespace

const char* bf16_products() { return name_of(detected().bf16, "avx512_bf16"); }
const char* int8_products() { return name_of(detected().int8, "avx512_vnni"); }

// A product of tiles takes 16 cycles.
double run_bf16_products(int rounds) {
  if (detected().bf16 == Products::amx) return amx_bf16_rounds(rounds / 20);
  return detected().bf16 == Products::avx512 ? avx512_bf16_rounds(rounds) : 0;
}

double run_int8_products(int rounds) {
  if (detected().int8 == Products::amx) return amx_int8_rounds(rounds / 20);
  return detected().int8 == Products::avx512 ? avx512_int8_rounds(rounds) : 0;
}

}  // namespace tachy::cpu

#else

namespace tachy::cpu {

const char* bf16_products() { return ""; }
double run_bf16_products(int) { return 0; }
const char* int8_products() { return ""; }
double run_int8_products(int) { return 0; }

}  // namespace tachy::cpu

#endif
