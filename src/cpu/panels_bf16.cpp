// The bf16 tile of panels.h: products of bf16 pairs summed in float32.
//
//   AMX          C 32 x 32 in four tiles, two of X (16 rows of 32 values), two of B (16 pairs by 16 columns):
//                four loads for four products of 16 cycles. Rows come from memory 16 at a time, hence
//                panel_row_step. On the plain replacement of tiles (amx.h) only when asked for, for tests
//   AVX-512 BF16 8 rows by 2 vectors
//   Arm's BF16   8 rows by 2 vectors (panels_neon.cpp)
//   portable     plain loops; only when asked for (TACHY_BF16=portable), for tests on other machines
//
// TACHY_BF16 = amx, avx512, neon, portable or amx-emulated chooses explicitly. A TACHY_ISA below native
// excludes AMX; below avx512 it excludes the other one, too.
#include <cstring>

#include "base/env.h"
#include "base/error.h"
#include "cpu/amx.h"
#include "cpu/isa.h"
#include "cpu/panels.h"
#include "cpu/panels_neon.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define TACHY_BF16_X86 1
#endif

namespace tachy::cpu {
namespace {

float widen_one(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// Calls body(p) for each panel separately.
template <class Body>
void each_panel(PanelProduct p, Body&& body) {
  for (int64_t i = 0; i < p.panels; ++i) {
    body(p);
    p.panel = static_cast<const char*>(p.panel) + p.panel_step;
    p.c += p.width;
  }
}

void product_portable(const PanelProduct& p) {
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.width; ++j) {
      float sum = p.add ? p.c[i * p.c_stride + j] : 0.0f;
      const auto* b = static_cast<const uint16_t*>(p.panel);
      for (int64_t s = 0; s < p.segments; ++s) {
        const auto* x = static_cast<const uint16_t*>(p.x[s]) + i * p.x_stride;
        for (int64_t k = 0; k < p.depth; ++k)
          sum += widen_one(x[k]) * widen_one(b[(k / 2 * p.width + j) * 2 + k % 2]);
        b += p.depth * p.width;
      }
      p.c[i * p.c_stride + j] = sum;
    }
}

template <bool kTwoRows, bool kTwoColumns, class Tiles>
inline void tile_product(Tiles& tiles, const PanelProduct& p, int64_t row) {
  const int64_t c_bytes = p.c_stride * 4, x_bytes = p.x_stride * 2, b_bytes = p.width * 4;
  float *c0 = p.c + row * p.c_stride, *c1 = c0 + 16 * p.c_stride;
  if (p.add) {
    tiles.template load<0>(c0, c_bytes);
    if constexpr (kTwoColumns) tiles.template load<1>(c0 + 16, c_bytes);
    if constexpr (kTwoRows) tiles.template load<2>(c1, c_bytes);
    if constexpr (kTwoRows && kTwoColumns) tiles.template load<3>(c1 + 16, c_bytes);
  } else {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  const char* b = static_cast<const char*>(p.panel);
  const int64_t depth = p.depth;
  for (int64_t s = 0; s < p.segments; ++s) {
    const char* x0 = static_cast<const char*>(p.x[s]) + row * x_bytes;
    const char* x1 = x0 + 16 * x_bytes;
    for (int64_t k = 0; k < depth; k += 32) {
      tiles.template load<6>(b, b_bytes);
      tiles.template load<4>(x0, x_bytes);
      tiles.template multiply_bf16<0, 4, 6>();
      if constexpr (kTwoColumns) {
        tiles.template load<7>(b + 64, b_bytes);
        tiles.template multiply_bf16<1, 4, 7>();
      }
      if constexpr (kTwoRows) {
        tiles.template load<5>(x1, x_bytes);
        tiles.template multiply_bf16<2, 5, 6>();
        if constexpr (kTwoColumns) tiles.template multiply_bf16<3, 5, 7>();
      }
      b += 16 * b_bytes, x0 += 64, x1 += 64;
    }
  }
  tiles.template store<0>(c0, c_bytes);
  if constexpr (kTwoColumns) tiles.template store<1>(c0 + 16, c_bytes);
  if constexpr (kTwoRows) tiles.template store<2>(c1, c_bytes);
  if constexpr (kTwoRows && kTwoColumns) tiles.template store<3>(c1 + 16, c_bytes);
}

template <bool kTwoColumns, class Tiles>
void tile_columns(Tiles& tiles, const PanelProduct& p) {
  int64_t row = 0;
  for (; row + 16 < p.rows; row += 32) tile_product<true, kTwoColumns>(tiles, p, row);
  if (row < p.rows) tile_product<false, kTwoColumns>(tiles, p, row);
}

template <class Tiles>
void product_tiles(const PanelProduct& all) {
  Tiles tiles;
  each_panel(all, [&](const PanelProduct& p) {
    p.width > 16 ? tile_columns<true>(tiles, p) : tile_columns<false>(tiles, p);
  });
}

#ifdef TACHY_BF16_X86

#define TACHY_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

template <int kRows, int kVectors>
TACHY_TARGET_AVX512 inline void avx512_tile(const PanelProduct& p, int64_t row) {
  float* c = p.c + row * p.c_stride;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = p.add ? _mm512_loadu_ps(c + r * p.c_stride + 16 * v) : _mm512_setzero_ps();
  const auto* b = static_cast<const char*>(p.panel);
  for (int64_t s = 0; s < p.segments; ++s) {
    const auto* x = static_cast<const uint16_t*>(p.x[s]) + row * p.x_stride;
    for (int64_t k = 0; k < p.depth; k += 2) {
      __m512bh right[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) right[v] = (__m512bh)_mm512_loadu_si512(b + 64 * v);
      b += 64 * kVectors;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int pair;
        std::memcpy(&pair, x + r * p.x_stride + k, 4);
        const __m512bh left = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], left, right[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + r * p.c_stride + 16 * v, sum[r][v]);
}

TACHY_TARGET_AVX512 void product_avx512(const PanelProduct& p) {
  const int64_t rows = panel_rows(p.rows, Compute::bf16);
  for (int64_t row = 0; row < rows; row += 8)
    p.width > 16 ? avx512_tile<8, 2>(p, row) : avx512_tile<8, 1>(p, row);
}

bool has_avx512_bf16() {
  uint32_t a, b, c, d;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;
  if ((enabled_state() & 0xe6) != 0xe6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool avx512 = (b >> 16 & 1) && (b >> 30 & 1) && (b >> 31 & 1) && (b >> 17 & 1);
  return avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

#endif  // TACHY_BF16_X86

#ifdef TACHY_NEON_BF16
constexpr const char* kLacks = "this CPU has no instructions of bf16 (FEAT_BF16)";
#else
constexpr const char* kLacks = "this CPU has neither AMX-BF16 nor AVX-512 BF16";
#endif

struct Choice {
  const char* name = nullptr;
  bool tiles = false;
  void (*run)(const PanelProduct&) = nullptr;
  std::optional<Refusal> why_not;

  Choice() {
    const std::string wanted = env_string("TACHY_BF16", "");
    check(wanted.empty() || wanted == "amx" || wanted == "avx512" || wanted == "neon" ||
              wanted == "portable" || wanted == "amx-emulated",
          ErrorCode::invalid_argument,
          "TACHY_BF16: expected amx, avx512, neon, portable or amx-emulated, got '{}'", wanted);
#ifdef TACHY_BF16_X86
    if (isa() == Isa::native && (wanted.empty() || wanted == "amx") && has_tiles_of_bf16())
      name = "amx-bf16", tiles = true, run = product_tiles<HardwareTiles>;
    if (!run && isa() >= Isa::avx512 && (wanted.empty() || wanted == "avx512") && has_avx512_bf16())
      name = "avx512-bf16", run = [](const PanelProduct& p) { each_panel(p, product_avx512); };
#endif
#ifdef TACHY_NEON_BF16
    if ((wanted.empty() || wanted == "neon") && has_neon_bf16())
      name = "neon-bf16", run = [](const PanelProduct& p) { each_panel(p, product_neon_bf16); };
#endif
    if (tiles_emulated()) name = "amx-emulated-bf16", tiles = true, run = product_tiles<PlainTiles>;
    if (!run && wanted == "portable")
      name = "portable-bf16", run = [](const PanelProduct& p) { each_panel(p, product_portable); };
    if (!run)
      why_not =
          isa() == Isa::native
              ? Refusal::machine(kLacks)
              : Refusal::machine("TACHY_ISA=",
                                 fmt::format("{} leaves neither AMX-BF16 nor AVX-512 BF16", isa_name(isa())));
  }
};

const Choice& choice() {
  static const Choice choice;
  return choice;
}

}  // namespace

std::optional<Refusal> panels_why_not(Compute compute) {
  return compute == Compute::f32 ? std::nullopt : choice().why_not;
}

const char* panels_name(Compute compute) {
  return compute == Compute::f32 ? "f32" : choice().name ? choice().name : "none";
}

bool panels_on_tiles() { return choice().tiles; }

void panel_product_bf16(const PanelProduct& p) { choice().run(p); }

}  // namespace tachy::cpu
