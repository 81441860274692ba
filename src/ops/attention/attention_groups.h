// The common part of float32 and bf16 flash attention on a CPU: keys and values of some heads are packed
// block by block, and then these heads' tiles of queries go through them, group after group.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

inline constexpr int64_t kGroupBytes = 32 << 20;  // size of the packed keys and values

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

inline const float* at(const Tensor& t, int64_t b, int64_t l, int64_t h) {
  return static_cast<const float*>(t.data) + b * t.strides[0] + l * t.strides[1] + h * t.strides[2];
}

// A head of the group that is packed.
struct GroupHead {
  int64_t place;  // its index in the group
  int64_t b, h;   // batch entry and head
};

// For each group, calls pack(block, its index, head, worker) and then tile(blocks, tile, head, worker), each
// on all threads. A tile has up to `queries_each` queries.
template <class Pack, class Tile>
void attend_in_groups(const AttentionArgs& a, int64_t key_block, int64_t heads_a_group, int64_t queries_each,
                      Stream& stream, Pack&& pack, Tile&& tile) {
  const int64_t heads = a.q.dim(2), all_heads = a.q.dim(0) * heads;
  const std::vector<KeyRange> ranges = all_ranges(a);
  const std::vector<KeyBlock> blocks = key_blocks(a, ranges, key_block, false);
  const auto present = static_cast<int64_t>(blocks.size());
  // With lists a tile is a part of one block of queries.
  const std::vector<ListedTile> tiles =
      a.blocks.defined() ? listed_tiles(a, queries_each) : std::vector<ListedTile>();
  const int64_t query_tiles = a.blocks.defined() ? static_cast<int64_t>(tiles.size())
                                                 : (a.q.dim(1) + queries_each - 1) / queries_each;
  const auto tile_of = [&](int64_t i) {
    if (a.blocks.defined()) return tiles[static_cast<size_t>(i)];
    return ListedTile{0, i * queries_each, std::min(queries_each, a.q.dim(1) - i * queries_each)};
  };
  for (int64_t first = 0; first < all_heads; first += heads_a_group) {
    const int64_t group = std::min(heads_a_group, all_heads - first);
    const auto head = [&](int64_t place) {
      return GroupHead{place, (first + place) / heads, (first + place) % heads};
    };
    stream.throw_if_cancelled();
    parallel_ranges(stream, group * present, 1, [&](int64_t i, int64_t, int worker) {
      pack(blocks[static_cast<size_t>(i % present)], i % present, head(i / present), worker);
    });
    parallel_ranges(stream, group * query_tiles, 1, [&](int64_t i, int64_t, int worker) {
      tile(blocks, tile_of(i % query_tiles), head(i / query_tiles), worker);
    });
  }
}

}  // namespace tachy::ops
