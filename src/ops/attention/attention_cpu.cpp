// Flash attention (Dao et al., 2022) on the CPU. K and V of some heads are packed once into panels (k-major,
// so that both products run on one register-blocked kernel). Then each tile of up to 96 queries goes through
// the keys in blocks of 256:
//   S = Q·Kᵀ (96 x 256, stays in the second-level cache) → t = S·scale + biases →
//   m' = max(m, max t),  p = exp(t − m'),  l = l·e + Σp,  O = O·e + P·V  with e = exp(m − m');
//   at the end out = O / l.
// Heads are packed in groups of about 32 MB, so memory is bounded however many keys there are. Neither tiles
// nor sums depend on the number of threads. A causal tile stops at its last visible key; the
// keys after a row's own last one, and those before a window's first, get the weight zero. If there are lists
// of key blocks (BlockLists), blocks of keys are those of the lists. A tile is then half a block of queries,
// or a block that is cut smaller, and goes through that block's list.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/attention/attention_groups.h"
#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math.h"
#include "cpu/simd_rows.h"
#include "cpu/simd_tile.h"
#include "ops/attention/attention_simd.h"

#ifndef TACHY_OPS_ATTENTION_CPU_ONCE
#define TACHY_OPS_ATTENTION_CPU_ONCE
namespace tachy::ops {
namespace {

constexpr int64_t kMaxQueries = 96, kRowGranule = 12;  // a tile's rows are a multiple of every kTileRows

// Sizes of everything; they depend only on shapes and the panel width.
struct Layout {
  int64_t batch, queries, heads, depth;
  int64_t width;                   // panel width
  int64_t keys;                    // keys of a block
  int64_t key_block, key_blocks;   // room for them (a multiple of the width), number of blocks
  int64_t queries_each;            // most queries of a tile
  int64_t query_tile;              // room for them, a multiple of kRowGranule
  int64_t padded_depth;            // depth rounded up to panels
  int64_t block_k, block_v, head;  // in floats: packed K and V of a block, and both of a head
  int64_t group;                   // heads (of any batch entry) packed at a time
  int64_t score_stride, depth_stride;
  int64_t worker;  // floats of scratch per worker: Q, S, O, m, l
};

Layout make_layout(const AttentionArgs& a, int64_t width) {
  Layout l{};
  l.batch = a.q.dim(0), l.queries = a.q.dim(1), l.heads = a.q.dim(2), l.depth = a.q.dim(3);
  l.width = width;
  if (a.blocks.defined()) {
    l.keys = a.blocks.most_keys(), l.queries_each = BlockLists::kTokens / 2;
    l.key_block = round_up(l.keys, width), l.query_tile = round_up(l.queries_each, kRowGranule);
  } else {
    l.key_block = std::min(round_up(most_keys(a), width), round_up(l.depth <= 256 ? 256 : 128, width));
    const int64_t tiles = std::max<int64_t>(1, (l.queries + kMaxQueries - 1) / kMaxQueries);
    l.query_tile = std::max(kRowGranule, round_up((l.queries + tiles - 1) / tiles, kRowGranule));
    l.keys = l.key_block, l.queries_each = l.query_tile;
  }
  l.key_blocks = static_cast<int64_t>(key_blocks(a, all_ranges(a), l.keys, true).size());
  l.padded_depth = round_up(l.depth, width);
  l.block_k = l.key_block * l.depth;
  l.block_v = l.key_block * l.padded_depth;
  l.head = l.key_blocks * (l.block_k + l.block_v);
  const int64_t heads = l.batch * l.heads;
  l.group = std::clamp<int64_t>(kGroupBytes / (l.head * 4), 1, std::max<int64_t>(1, heads));
  l.score_stride = l.key_block + 16;  // rows must not all fall into the same sets of the cache
  l.depth_stride = l.padded_depth + 16;
  l.worker = round_up(l.query_tile * (2 * l.depth_stride + l.score_stride + 2), 64);
  return l;
}

}  // namespace
}  // namespace tachy::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

int64_t attention_panel_width() { return simd::panel_width(); }

// Packs one block of keys: K as panels [depth][width] (keys
// side by side), V as panels [keys][width] (channels).
void attention_pack(const KeyBlock& block, const Layout& l, int64_t b, int64_t h, float* packed_k,
                    float* packed_v) {
  const auto& [range, present, first, count] = block;
  const int64_t w = l.width;
  const int64_t step = std::min<int64_t>(4, w);
  for (int64_t key = 0; key < round_up(count, w); key += step) {
    float* to = packed_k + key / w * w * l.depth + key % w;
    const int64_t stride = range->k.strides[1];
    const float* from = at(range->k, b, first + key, h);
    int64_t c = 0;
    if (step == 4 && key + 4 <= count)
      for (; c + 4 <= l.depth; c += 4) simd::transpose_4x4(from + c, stride, to + c * w, w);
    for (; c < l.depth; ++c)
      for (int64_t i = 0; i < step; ++i) to[c * w + i] = key + i < count ? from[i * stride + c] : 0.0f;
  }
  for (int64_t key = 0; key < count; ++key) {
    const float* from = at(range->v, b, first + key, h);
    for (int64_t c = 0; c < l.padded_depth; c += w) {
      float* to = packed_v + c * l.key_block + key * w;
      const int64_t n = std::min(w, l.depth - c);
      std::memcpy(to, from + c, static_cast<size_t>(n) * 4);
      if (n < w) std::memset(to + n, 0, static_cast<size_t>(w - n) * 4);
    }
  }
}

// Turns scores of a row into weights in place and returns their sum. *highest is updated, and *rescale
// becomes exp(old − new).
HWY_INLINE float soften_row(float* s, int64_t count, float scale, const float* key_bias, const float* bias,
                            float* highest, float* rescale) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const bool plain = !key_bias && !bias && scale > 0;
  const float now = std::max(*highest, highest_score(s, count, scale, key_bias, bias, plain));
  const float base = now == lowest ? 0.0f : now;  // if all are masked so far, weights become exp(-inf) = 0
  *rescale = std::exp(*highest - base);
  *highest = now;
  return simd::sum_lanes(count, [&](auto d, int64_t j) HWY_ATTR {
    const auto t = hn::LoadU(d, s + j);
    const auto p = cpu::HWY_NAMESPACE::exp_negative(
        d, plain ? hn::MulSub(t, hn::Set(d, scale), hn::Set(d, base)) : hn::Sub(t, hn::Set(d, base)));
    hn::StoreU(p, d, s + j);
    return p;
  });
}

// Takes one tile of queries through all keys of its head, or those of its list.
void attention_tile(const AttentionArgs& a, const Layout& l, int64_t b, int64_t h, const ListedTile& tile,
                    std::span<const KeyBlock> blocks, const float* packed, float* scratch) {
  const int64_t first = tile.first, count = tile.count;
  const int64_t rows = round_up(count, simd::kTileRows);
  float* q = scratch;
  float* o = q + l.query_tile * l.depth_stride;
  float* s = o + l.query_tile * l.depth_stride;
  float *highest = s + l.query_tile * l.score_stride, *total = highest + l.query_tile;
  for (int64_t i = 0; i < rows; ++i) {
    if (i < count)
      std::memcpy(q + i * l.depth_stride, at(a.q, b, first + i, h), static_cast<size_t>(l.depth) * 4);
    else
      std::memset(q + i * l.depth_stride, 0, static_cast<size_t>(l.depth) * 4);
    std::memset(o + i * l.depth_stride, 0, static_cast<size_t>(l.padded_depth) * 4);
    highest[i] = -std::numeric_limits<float>::infinity(), total[i] = 0;
  }
  const TileWalk walk{
      a, b, h, tile.block, first, count, rows, blocks, o, l.depth_stride, l.padded_depth, highest, total};
  walk_keys(
      walk,
      [&](size_t block, int64_t keys) HWY_ATTR {
        const float* k = packed + static_cast<int64_t>(block) * (l.block_k + l.block_v);
        simd::multiply_panels<false>(q, l.depth_stride, rows, k, l.depth, (keys + l.width - 1) / l.width,
                                     l.width * l.depth, s, l.score_stride);
      },
      [&](const RowOfScores& row, float* rescale) HWY_ATTR {
        float* score = s + row.index * l.score_stride;
        if (row.end < row.keys) std::memset(score + row.end, 0, static_cast<size_t>(row.keys - row.end) * 4);
        if (row.from > 0) std::memset(score, 0, static_cast<size_t>(row.from) * 4);
        if (row.from == row.end) return 0.0f;
        return soften_row(score + row.from, row.end - row.from, a.scale, row.key_bias, row.bias,
                          &highest[row.index], rescale);
      },
      [&](size_t block, int64_t keys) HWY_ATTR {
        const float* v = packed + static_cast<int64_t>(block) * (l.block_k + l.block_v) + l.block_k;
        simd::multiply_panels<true>(s, l.score_stride, rows, v, keys, l.padded_depth / l.width,
                                    l.width * l.key_block, o, l.depth_stride);
      });
  for (int64_t i = 0; i < count; ++i)
    write_query(a, b, h, first + i, o + i * l.depth_stride, highest[i], total[i]);
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(attention_panel_width);
HWY_EXPORT(attention_pack);
HWY_EXPORT(attention_tile);

void attention_cpu(const AttentionArgs& a, Stream& stream) {
  const Layout l = make_layout(a, HWY_DYNAMIC_DISPATCH(attention_panel_width)());
  ArenaScope scope(*stream.arena);
  auto* packed = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(l.group * l.head) * 4));
  auto* scratch =
      static_cast<float*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * l.worker) * 4));
  if (stream.measuring()) return;
  attend_in_groups(
      a, l.keys, l.group, l.queries_each, stream,
      [&](const KeyBlock& block, int64_t index, const GroupHead& head, int) {
        float* k = packed + head.place * l.head + index * (l.block_k + l.block_v);
        HWY_DYNAMIC_DISPATCH(attention_pack)(block, l, head.b, head.h, k, k + l.block_k);
      },
      [&](std::span<const KeyBlock> blocks, const ListedTile& tile, const GroupHead& head, int worker) {
        HWY_DYNAMIC_DISPATCH(attention_tile)
        (a, l, head.b, head.h, tile, blocks, packed + head.place * l.head, scratch + worker * l.worker);
      });
}

}  // namespace tachy::ops
#endif
