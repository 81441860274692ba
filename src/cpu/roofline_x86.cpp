// Register-only bf16 products of x86: AMX tiles (16x16x32, four sums in flight) or AVX-512 BF16 dot products.
// Intrinsics, because Highway 1.0 has neither; chosen at run time by CPUID. Elsewhere: none.
#include "cpu/roofline.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

#include "cpu/amx.h"
#include "cpu/isa.h"

namespace tachy::cpu {
namespace {

enum class Products { none, avx512, amx };

Products detect() {
  if (isa() < Isa::avx512) return Products::none;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) && isa() == Isa::native &&
      tiles_allowed())
    return Products::amx;
  return __builtin_cpu_supports("avx512bf16") ? Products::avx512 : Products::none;
}

Products products() {
  static const Products value = detect();
  return value;
}

__attribute__((target("amx-tile,amx-bf16"))) double amx_rounds(int rounds) {
  struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_per_row[16] = {};
    uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) config.bytes_per_row[i] = 64, config.rows[i] = 16;
  // GCC 12 takes only the first eight bytes of the configuration for read: all of it must be in memory.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * 32 * rounds;
}

__attribute__((target("avx512f,avx512bf16"))) double avx512_rounds(int rounds) {
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

}  // namespace

const char* bf16_products() {
  return products() == Products::amx ? "amx" : products() == Products::avx512 ? "avx512_bf16" : "";
}

double run_bf16_products(int rounds) {
  if (products() == Products::amx) return amx_rounds(rounds / 20);  // a tile product takes 16 cycles
  return products() == Products::avx512 ? avx512_rounds(rounds) : 0;
}

}  // namespace tachy::cpu

#else

namespace tachy::cpu {

const char* bf16_products() { return ""; }
double run_bf16_products(int) { return 0; }

}  // namespace tachy::cpu

#endif
