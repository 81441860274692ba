// How attention_bf16.cpp divides its work: blocks of keys, tiles of queries, and where the packed keys and
// values and a worker's scratch lie.
#pragma once

#include <algorithm>

#include "cpu/panels.h"
#include "ops/attention/attention_groups.h"

namespace tachy::ops {

inline constexpr int64_t kMaxQueries = 128, kWidth = 32;  // queries of a tile; columns of a panel

struct Bf16Layout {
  int64_t batch, queries, heads, depth;
  int64_t key_block, key_blocks;    // keys per block (a multiple of kWidth); number of blocks
  int64_t query_tile;               // most queries of a tile (a multiple of 16)
  int64_t padded;                   // depth, a multiple of kWidth
  int64_t block_bytes, head_bytes;  // packed K and V of one block, and of one head
  int64_t group;                    // heads (of any batch entry) packed at a time
  int64_t q_stride, s_stride, p_stride, o_stride;
  int64_t worker_bytes;  // room for Q, P, S, O, m and l, and for packing panels
};

inline Bf16Layout make_bf16_layout(const AttentionArgs& a) {
  Bf16Layout l{};
  l.batch = a.q.dim(0), l.queries = a.q.dim(1), l.heads = a.q.dim(2), l.depth = a.q.dim(3);
  // With lists of key blocks, a block of keys here is one block of the lists, and a tile is one block of
  // their queries.
  constexpr int64_t kListed = BlockLists::kTokens;
  static_assert(kListed % kWidth == 0 && kListed == kMaxQueries);
  const bool lists = a.blocks.defined();
  l.key_block = lists ? round_up(a.blocks.most_keys(), kWidth)
                      : std::min<int64_t>(round_up(most_keys(a), kWidth), l.depth <= 256 ? 256 : 128);
  l.key_blocks = static_cast<int64_t>(key_blocks(a, all_ranges(a), l.key_block, true).size());
  const int64_t tiles = std::max<int64_t>(1, (l.queries + kMaxQueries - 1) / kMaxQueries);
  l.query_tile = lists ? kListed : std::max<int64_t>(16, round_up((l.queries + tiles - 1) / tiles, 16));
  l.padded = round_up(l.depth, kWidth);
  l.block_bytes = 2 * l.key_block * l.padded * 2;
  l.head_bytes = l.key_blocks * l.block_bytes;
  l.group = std::clamp<int64_t>(kGroupBytes / l.head_bytes, 1, std::max<int64_t>(1, l.batch * l.heads));
  // The strides keep rows from all falling into the same sets of the cache.
  l.q_stride = l.padded + 32, l.p_stride = l.key_block + 32;
  l.s_stride = l.key_block + 16, l.o_stride = l.padded + 16;
  const int64_t tile = l.query_tile * (2 * (l.q_stride + l.p_stride) + 4 * (l.s_stride + l.o_stride + 2));
  l.worker_bytes = round_up(std::max(tile, cpu::kPanelPackScratch), 256);
  return l;
}

}  // namespace tachy::ops
