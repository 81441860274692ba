// Flash attention on the bf16 panels of cpu/panels.h (AMX, AVX-512 BF16). As in attention_cpu.cpp, K and V of
// some heads are packed once; a tile of up to 128 queries goes through the keys in blocks of 256:
//   S = Q·Kᵀ (bf16 in, float32 out) → P = exp(S·scale + biases − max), rounded to bf16 → O = O·e + P·V in float32.
// Maxima and the sum Σ P stay in float32; the sum takes the weights before rounding. With AMX the two
// products take less time than the softmax, so its exp is a polynomial of degree 3 (its error is 7.5e-5, a
// fiftieth of that of rounding P).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/panels.h"
#include "ops/attention/attention_bf16_layout.h"
#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_bf16.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/attention/attention_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

inline constexpr float kLog2e = 1.44269504088896341f;

// Rounds the bits of floats so that the upper half is the nearest bf16. This is for weights only: a NaN need
// not survive here, because it is in their sum.
template <class D>
HWY_INLINE auto round_bits(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  return hn::Add(bits, hn::Add(hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1)), hn::Set(du, 0x7fff)));
}

// Packs V of a block as panels [keys/2][32 channels][2], where each word holds a pair of keys. NaN must
// survive, so this takes cpu::narrow_bf16.
void attention_pack_values(const KeyRange& range, const Bf16Layout& l, int64_t b, int64_t h, int64_t first,
                           int64_t count, uint16_t* packed) {
  const int64_t filled = round_up(count, kWidth);
  uint16_t even[kWidth], odd[kWidth];
  for (int64_t key = 0; key < filled; key += 2)
    for (int64_t c = 0; c < l.padded; c += kWidth) {
      const int64_t n = std::min(kWidth, l.depth - c);
      std::memset(even, 0, sizeof even);
      std::memset(odd, 0, sizeof odd);
      if (key < count) cpu::narrow_bf16(at(range.v, b, first + key, h) + c, n, even);
      if (key + 1 < count) cpu::narrow_bf16(at(range.v, b, first + key + 1, h) + c, n, odd);
      uint16_t* to = packed + c * l.key_block + key * kWidth;
      for (int64_t i = 0; i < kWidth; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
    }
}

// 2^x for x <= 0, with an error of 1.0e-4, exact at 0; below 2^-126, and for -inf, it is 0. NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto below = hn::Lt(x, hn::Set(d, -126.0f));
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const V shifted = hn::Add(x, magic);
  const V f = hn::Sub(x, hn::Sub(shifted, magic));
  V p = hn::MulAdd(hn::Set(d, 0.05500893f), f, hn::Set(d, 0.24221096f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69328293f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  p = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(below, p);
}

// Turns scores of a row into bf16 weights and returns the weights' sum. *highest is updated, and *rescale
// becomes exp(old − new).
HWY_INLINE float soften_row(float* s, int64_t count, float scale, const float* key_bias, const float* bias,
                            uint16_t* weights, float* highest, float* rescale) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const bool plain = !key_bias && !bias && scale > 0;
  const float now = std::max(*highest, highest_score(s, count, scale, key_bias, bias, plain));
  const float base = now == lowest ? 0.0f : now;  // if all are masked so far, weights become exp(-inf) = 0
  *rescale = std::exp(*highest - base);
  *highest = now;
  const float factor = plain ? scale * kLog2e : kLog2e, shift = base * kLog2e;
  return simd::sum_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint16_t, decltype(d)> half;
    const auto t = hn::LoadU(d, s + i);
    // With biases the difference is taken first: a mask of finfo.min times log2(e) would be infinite.
    const auto x = plain ? hn::MulSub(t, hn::Set(d, factor), hn::Set(d, shift))
                         : hn::Mul(hn::Sub(t, hn::Set(d, base)), hn::Set(d, factor));
    const auto p = exp2_negative(d, x);
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(round_bits(d, p))), half, weights + i);
    return p;
  });
}

// Takes one tile of queries through all keys of its head, or those of its list.
void attention_tile_bf16(const AttentionArgs& a, const Bf16Layout& l, int64_t b, int64_t h,
                         const ListedTile& tile, std::span<const KeyBlock> blocks, const char* packed,
                         char* scratch) {
  const int64_t first = tile.first, count = tile.count;
  const int64_t rows = cpu::panel_rows(count, Compute::bf16);
  auto* s = reinterpret_cast<float*>(scratch);
  float* o = s + l.query_tile * l.s_stride;
  float *highest = o + l.query_tile * l.o_stride, *total = highest + l.query_tile;
  auto* q = reinterpret_cast<uint16_t*>(total + l.query_tile);
  uint16_t* p = q + l.query_tile * l.q_stride;
  std::memset(q, 0, static_cast<size_t>(rows * l.q_stride) * 2);
  std::memset(o, 0, static_cast<size_t>(rows * l.o_stride) * 4);
  for (int64_t i = 0; i < rows; ++i) {
    if (i < count) cpu::narrow_bf16(at(a.q, b, first + i, h), l.depth, q + i * l.q_stride);
    highest[i] = -std::numeric_limits<float>::infinity(), total[i] = 0;
  }
  const TileWalk walk{a,      b, h,          tile.block, first,   count, rows,
                      blocks, o, l.o_stride, l.padded,   highest, total};
  walk_keys(
      walk,
      [&](size_t block, int64_t keys) HWY_ATTR {
        const void* from = q;
        cpu::panel_product({.x = &from,
                            .depth = l.padded,
                            .x_stride = l.q_stride,
                            .panel = packed + static_cast<int64_t>(block) * l.block_bytes,
                            .width = kWidth,
                            .panels = round_up(keys, kWidth) / kWidth,
                            .panel_step = l.padded * kWidth * 2,
                            .rows = rows,
                            .c = s,
                            .c_stride = l.s_stride},
                           Compute::bf16);
      },
      [&](const RowOfScores& row, float* rescale) HWY_ATTR {
        uint16_t* weights = p + row.index * l.p_stride;
        std::memset(weights, 0, static_cast<size_t>(row.from) * 2);
        std::memset(weights + row.end, 0, static_cast<size_t>(round_up(row.keys, kWidth) - row.end) * 2);
        if (row.from == row.end) return 0.0f;
        return soften_row(s + row.index * l.s_stride + row.from, row.end - row.from, a.scale, row.key_bias,
                          row.bias, weights + row.from, &highest[row.index], rescale);
      },
      [&](size_t block, int64_t keys) HWY_ATTR {
        const void* from = p;
        cpu::panel_product(
            {.x = &from,
             .depth = round_up(keys, kWidth),
             .x_stride = l.p_stride,
             .panel = packed + static_cast<int64_t>(block) * l.block_bytes + l.key_block * l.padded * 2,
             .width = kWidth,
             .panels = l.padded / kWidth,
             .panel_step = l.key_block * kWidth * 2,
             .rows = rows,
             .c = o,
             .c_stride = l.o_stride,
             .add = true},
            Compute::bf16);
      });
  for (int64_t i = 0; i < count; ++i)
    write_query(a, b, h, first + i, o + i * l.o_stride, highest[i], total[i]);
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(attention_pack_values);
HWY_EXPORT(attention_tile_bf16);

std::optional<Refusal> attention_why_not_bf16(const AttentionArgs&, const Stream& stream) {
  if (stream.precision.compute != Compute::bf16) return Refusal::settings("float32 is asked for");
  return cpu::panels_why_not(Compute::bf16);
}

std::optional<Refusal> attention_why_not_cpu(const AttentionArgs&, const Stream& stream) {
  if (cpu::usable(stream.precision.compute) == Compute::bf16) return Refusal::settings("bf16 is asked for");
  return std::nullopt;
}

void attention_bf16(const AttentionArgs& a, Stream& stream) {
  const Bf16Layout l = make_bf16_layout(a);
  ArenaScope scope(*stream.arena);
  auto* packed = static_cast<char*>(stream.arena->bytes(static_cast<size_t>(l.group * l.head_bytes)));
  auto* scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * l.worker_bytes)));
  if (stream.measuring()) return;
  attend_in_groups(
      a, l.key_block, l.group, l.query_tile, stream,
      [&](const KeyBlock& block, int64_t index, const GroupHead& head, int worker) {
        const auto& [range, all, begin, count] = block;
        char* k = packed + head.place * l.head_bytes + index * l.block_bytes;
        for (int64_t key = 0; key < count; key += kWidth)
          cpu::pack_panel(at(range->k, head.b, begin + key, head.h), DType::f32, range->k.strides[1],
                          std::min(kWidth, count - key), l.depth, l.padded, kWidth, Compute::bf16,
                          k + key * l.padded * 2, scratch + worker * l.worker_bytes);
        HWY_DYNAMIC_DISPATCH(attention_pack_values)
        (*range, l, head.b, head.h, begin, count,
         reinterpret_cast<uint16_t*>(k + l.key_block * l.padded * 2));
      },
      [&](std::span<const KeyBlock> blocks, const ListedTile& tile, const GroupHead& head, int worker) {
        HWY_DYNAMIC_DISPATCH(attention_tile_bf16)
        (a, l, head.b, head.h, tile, blocks, packed + head.place * l.head_bytes,
         scratch + worker * l.worker_bytes);
      });
}

}  // namespace tachy::ops
#endif
