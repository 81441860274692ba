// Register-only bf16 products of x86: AMX tiles (16x16x32, four sums in flight) or AVX-512 BF16 dot products.
// Intrinsics, because Highway 1.0 has neither; chosen at run time by CPUID. Elsewhere: none.
#include "cpu/roofline.h"

#if defined(__x86_64__) && defined(__linux__)

#include <immintrin.h>

#include "cpu/amx.h"
#include "cpu/isa.h"

namespace tachy::cpu {
namespace {

enum class Products { none, avx512, amx };

Products detect() {
  if (isa() < Isa::avx512) return Products::none;
  if (isa() == Isa::native && has_tiles_of_bf16()) return Products::amx;
  return __builtin_cpu_supports("avx512bf16") ? Products::avx512 : Products::none;
}

Products products() {
  static const Products value = detect();
  return value;
}

double amx_rounds(int rounds) {
  HardwareTiles tiles;
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  tiles.zero<4>();
  tiles.zero<5>();
  tiles.zero<6>();
  tiles.zero<7>();
  for (int i = 0; i < rounds; ++i) {
    tiles.multiply_bf16<0, 4, 6>();
    tiles.multiply_bf16<1, 4, 7>();
    tiles.multiply_bf16<2, 5, 6>();
    tiles.multiply_bf16<3, 5, 7>();
  }
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
