// The split of float32 values in Highway, exact on every instruction set, and products on tiles (amx.h).
#include "cpu/split_tiles.h"

#include <algorithm>

#include "cpu/amx.h"
#include "cpu/panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/split_tiles.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of a value that one plane holds.
template <class D>
HWY_INLINE auto cut([[maybe_unused]] D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  return hn::And(hn::BitCast(du, v), hn::Set(du, 0xffff0000u));
}

void row(const float* from, int64_t count, int64_t padded, uint16_t* to, int64_t plane_step) {
  for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Rebind<uint16_t, decltype(d)> half;
    auto v = hn::LoadU(d, from + i);
    for (int plane = 0; plane < kSplitPlanes; ++plane) {
      const auto top = cut(d, v);
      hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(top)), half, to + plane * plane_step + i);
      v = hn::Sub(v, hn::BitCast(d, hn::BitCast(du, top)));
    }
  });
  for (int plane = 0; plane < kSplitPlanes; ++plane)
    std::fill(to + plane * plane_step + count, to + plane * plane_step + padded, uint16_t{0});
}

// Splits one vector of columns of two rows of K.
template <int kPlanes, class D>
HWY_INLINE void pair(D d, hn::Vec<D> even, hn::Vec<D> odd, int64_t plane_step, uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
#pragma GCC unroll 3
  for (int plane = 0; plane < kPlanes; ++plane) {
    const auto low = cut(d, even), high = cut(d, odd);
    hn::StoreU(hn::Or(hn::ShiftRight<16>(low), high), du,
               reinterpret_cast<uint32_t*>(to + plane * plane_step));
    even = hn::Sub(even, hn::BitCast(d, low));
    odd = hn::Sub(odd, hn::BitCast(d, high));
  }
}

// It goes row by row, so that reads lie together, and prefetches later lines.
template <int kPlanes>
void panel_of(const SplitPanel& p) {
  constexpr int64_t kAhead = 2048;  // in bytes
  const hn::CappedTag<float, kSplitColumns> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t plane_step = p.depth * kSplitColumns, block_step = kPlanes * plane_step;
  for (int64_t k = 0; k < p.padded; k += 2) {
    const float* from = p.from + k * p.width;
    for (int64_t byte = 0; byte < 8 * p.width; byte += 64)
      hwy::Prefetch(reinterpret_cast<const char*>(from) + kAhead + byte);
    for (int64_t column = 0; column < p.width; column += kSplitColumns) {
      uint16_t* to = p.to + column / kSplitColumns * block_step + k * kSplitColumns;
      for (int64_t v = 0; v < kSplitColumns; v += lanes) {
        const float* at = from + column + v;
        pair<kPlanes>(d, k < p.count ? hn::LoadU(d, at) : hn::Zero(d),
                      k + 1 < p.count ? hn::LoadU(d, at + p.width) : hn::Zero(d), plane_step, to + 2 * v);
      }
    }
  }
}

void panel(const SplitPanel& p) {
  p.planes == 1 ? panel_of<1>(p) : p.planes == 2 ? panel_of<2>(p) : panel_of<3>(p);
}

// Writes the sums of 16 or 32 rows of 32 to C, or adds them to it.
void add_sums(const SplitProduct& p, const float* sums, int64_t rows, int64_t columns, float* c) {
  const hn::CappedTag<float, kSplitColumns> d;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < columns; v += static_cast<int64_t>(hn::Lanes(d))) {
      auto value = hn::LoadU(d, sums + r * 32 + v);
      if (p.add) value = hn::Add(value, hn::LoadU(d, c + r * p.c_stride + v));
      hn::StoreU(value, d, c + r * p.c_stride + v);
    }
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::cpu {

HWY_EXPORT(row);
HWY_EXPORT(panel);
HWY_EXPORT(add_sums);

namespace {

// Computes the sums of one block of K: 32 rows by 32 columns in four tiles. The tiles begin at zero and are
// added to C in float32: this way the six products of a value are rounded into a short sum, not into the
// whole one.
template <bool kTwoRows, bool kTwoColumns, class Tiles>
inline void split_tile(Tiles& tiles, const SplitProduct& p, const uint16_t* x, const uint16_t* b,
                       float* sums) {
  const int64_t x_bytes = p.x_stride * 2, x_rows = 16 * p.x_stride, b_block = p.b_block, depth = p.depth;
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
  for (int64_t k = 0; k < depth; k += 32) {
    for (int i = 0; i < kSplitPlanes; ++i) {
      const uint16_t* left = x + i * p.x_plane + k;
      tiles.template load<4>(left, x_bytes);
      if constexpr (kTwoRows) tiles.template load<5>(left + x_rows, x_bytes);
      for (int j = 0; j < std::min(p.planes, kSplitPlanes - i); ++j) {
        const uint16_t* right = b + j * p.b_plane + k * kSplitColumns;
        tiles.template load<6>(right, kAmxRowBytes);
        tiles.template multiply_bf16<0, 4, 6>();
        if constexpr (kTwoRows) tiles.template multiply_bf16<2, 5, 6>();
        if constexpr (kTwoColumns) {
          tiles.template load<7>(right + b_block, kAmxRowBytes);
          tiles.template multiply_bf16<1, 4, 7>();
          if constexpr (kTwoRows) tiles.template multiply_bf16<3, 5, 7>();
        }
      }
    }
  }
  tiles.template store<0>(sums, 128);
  if constexpr (kTwoColumns) tiles.template store<1>(sums + 16, 128);
  if constexpr (kTwoRows) tiles.template store<2>(sums + 16 * 32, 128);
  if constexpr (kTwoRows && kTwoColumns) tiles.template store<3>(sums + 16 * 32 + 16, 128);
}

template <class Tiles>
void product(const SplitProduct& p) {
  alignas(64) float sums[32 * 32];
  Tiles tiles;
  for (int64_t block = 0; block < p.blocks; block += 2) {
    const uint16_t* b = p.b + block * p.b_block;
    const bool two = block + 1 < p.blocks;
    for (int64_t row = 0; row < p.rows; row += 32) {
      const uint16_t* x = p.x + row * p.x_stride;
      const bool both = row + 16 < p.rows;
      if (both)
        two ? split_tile<true, true>(tiles, p, x, b, sums) : split_tile<true, false>(tiles, p, x, b, sums);
      else
        two ? split_tile<false, true>(tiles, p, x, b, sums) : split_tile<false, false>(tiles, p, x, b, sums);
      HWY_DYNAMIC_DISPATCH(add_sums)
      (p, sums, both ? 32 : 16, two ? 32 : 16, p.c + row * p.c_stride + block * kSplitColumns);
    }
  }
}

}  // namespace

bool has_split_tiles() { return panels_on_tiles(); }

void split_row(const float* from, int64_t count, int64_t padded, uint16_t* to, int64_t plane_step) {
  HWY_DYNAMIC_DISPATCH(row)(from, count, padded, to, plane_step);
}

void split_panel(const SplitPanel& p) { HWY_DYNAMIC_DISPATCH(panel)(p); }

void split_product(const SplitProduct& p) {
#if defined(__x86_64__)
  if (!tiles_emulated()) return product<HardwareTiles>(p);
#endif
  product<PlainTiles>(p);
}

}  // namespace tachy::cpu
#endif
