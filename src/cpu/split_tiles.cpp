#include "cpu/split_tiles.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "cpu/amx.h"
#include "cpu/panels.h"

namespace tachy::cpu {

#if defined(__x86_64__)
namespace {

// The sums of one k block: 32 rows by 32 columns in four tiles. The tiles begin at zero and are added to C in
// float32: six products a value are rounded into a short sum, not into the whole one.
template <bool kTwoRows, bool kTwoColumns>
TACHY_TARGET_AMX inline void split_tile(const SplitProduct& p, const uint16_t* x, const uint16_t* b,
                                        float* sums) {
  const int64_t x_bytes = p.x_stride * 2;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t k = 0; k < p.depth; k += 32) {
    for (int i = 0; i < kSplitPlanes; ++i) {
      const uint16_t* left = x + i * p.x_plane + k;
      _tile_loadd(4, left, x_bytes);
      if constexpr (kTwoRows) _tile_loadd(5, left + 16 * p.x_stride, x_bytes);
      for (int j = 0; j < std::min(p.planes, kSplitPlanes - i); ++j) {
        const uint16_t* right = b + j * p.b_plane + k * kSplitColumns;
        _tile_loadd(6, right, 64);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);
        if constexpr (kTwoColumns) {
          _tile_loadd(7, right + p.b_block, 64);
          _tile_dpbf16ps(1, 4, 7);
          if constexpr (kTwoRows) _tile_dpbf16ps(3, 5, 7);
        }
      }
    }
  }
  _tile_stored(0, sums, 128);
  if constexpr (kTwoColumns) _tile_stored(1, sums + 16, 128);
  if constexpr (kTwoRows) _tile_stored(2, sums + 16 * 32, 128);
  if constexpr (kTwoRows && kTwoColumns) _tile_stored(3, sums + 16 * 32 + 16, 128);
}

TACHY_TARGET_AMX inline void add_sums(const SplitProduct& p, const float* sums, int64_t rows, int64_t columns,
                                      float* c) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < columns; v += 16) {
      __m512 value = _mm512_load_ps(sums + r * 32 + v);
      if (p.add) value = _mm512_add_ps(value, _mm512_loadu_ps(c + r * p.c_stride + v));
      _mm512_storeu_ps(c + r * p.c_stride + v, value);
    }
}

TACHY_TARGET_AMX inline __m512i cut(__m512 v) {
  return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
}

}  // namespace

TACHY_TARGET_AMX void split_product(const SplitProduct& p) {
  alignas(64) float sums[32 * 32];
  configure_tiles();
  for (int64_t block = 0; block < p.blocks; block += 2) {
    const uint16_t* b = p.b + block * p.b_block;
    const bool two = block + 1 < p.blocks;
    for (int64_t row = 0; row < p.rows; row += 32) {
      const uint16_t* x = p.x + row * p.x_stride;
      const bool both = row + 16 < p.rows;
      if (both)
        two ? split_tile<true, true>(p, x, b, sums) : split_tile<true, false>(p, x, b, sums);
      else
        two ? split_tile<false, true>(p, x, b, sums) : split_tile<false, false>(p, x, b, sums);
      add_sums(p, sums, both ? 32 : 16, two ? 32 : 16, p.c + row * p.c_stride + block * kSplitColumns);
    }
  }
  _tile_release();
}

TACHY_TARGET_AMX void split_row(const float* from, int64_t count, int64_t padded, uint16_t* to,
                                int64_t plane_step) {
  for (int64_t i = 0; i < padded; i += 16) {
    const int64_t left = std::clamp<int64_t>(count - i, 0, 16);
    __m512 v = _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << left) - 1), from + i);
    for (int plane = 0; plane < kSplitPlanes; ++plane) {
      const __m512i top = cut(v);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + plane * plane_step + i),
                          _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, top, 16)));
      v = _mm512_sub_ps(v, _mm512_castsi512_ps(top));
    }
  }
}

TACHY_TARGET_AMX void split_panel(const float* panel, int64_t k, int64_t width, int planes, uint16_t* to) {
  const int64_t depth = split_depth(k), plane_step = depth * kSplitColumns;
  for (int64_t column = 0; column < width; column += kSplitColumns) {
    for (int64_t row = 0; row < depth; row += 2) {
      __m512 even = row < k ? _mm512_loadu_ps(panel + row * width + column) : _mm512_setzero_ps();
      __m512 odd = row + 1 < k ? _mm512_loadu_ps(panel + (row + 1) * width + column) : _mm512_setzero_ps();
      for (int plane = 0; plane < planes; ++plane) {
        const __m512i low = cut(even), high = cut(odd);
        _mm512_storeu_si512(to + plane * plane_step + row * kSplitColumns,
                            _mm512_or_si512(_mm512_maskz_srli_epi32(0xffff, low, 16), high));
        even = _mm512_sub_ps(even, _mm512_castsi512_ps(low));
        odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(high));
      }
    }
    to += planes * plane_step;
  }
}

bool has_split_tiles() { return std::string_view(panels_name(Compute::bf16)) == "amx-bf16"; }

#else

void split_product(const SplitProduct&) {}
void split_row(const float*, int64_t, int64_t, uint16_t*, int64_t) {}
void split_panel(const float*, int64_t, int64_t, int, uint16_t*) {}
bool has_split_tiles() { return false; }

#endif

}  // namespace tachy::cpu
