// Checks lists of key blocks on the host: their form, and their contents if the host can read them.
#include <algorithm>

#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void check_block_lists(const char* op, const AttentionArgs& a) {
  const BlockLists& lists = a.blocks;
  for (const BlockCuts* cuts : {&lists.queries, &lists.keys}) {
    if (!cuts->defined()) continue;
    expect_real(op, "ends", cuts->ends, {-1}, DType::i32);
    require(cuts->most >= 1 && cuts->most <= BlockLists::kTokens,
            "{}: expected blocks of 1 to {} tokens, got {}", op, BlockLists::kTokens, cuts->most);
  }
  const int64_t b = a.q.dim(0), h = a.q.dim(2), queries = block_count(lists.queries, a.q.dim(1));
  expect_real(op, "indices", lists.indices, {-1, h, queries, -1}, DType::i32);
  const int64_t batch = lists.indices.dim(0), capacity = lists.indices.dim(3);
  require(batch == b || batch == 1, "{}: expected lists of {} batch entries or of one for all, got {}", op, b,
          batch);
  require(capacity >= 1 && capacity <= 0x7fffffff, "{}: expected lists with room for a block, got {}", op,
          capacity);
  expect_real(op, "counts", lists.counts, {batch, h, queries}, DType::i32);
  require(a.whole(), "{}: lists of key blocks need one range of keys, all of them there", op);
  require(!a.causal && !a.bias.defined() && !a.key_bias.defined(),
          "{}: lists of key blocks go with no causal mask and no bias", op);
}

namespace {

void check_cuts(const char* op, const BlockCuts& cuts, int64_t tokens) {
  if (!cuts.defined()) return;
  for (int64_t i = 0; i < cuts.ends.dim(0); ++i) {
    const int64_t count = block_span(cuts, tokens, i).count();
    require(count >= 1 && count <= cuts.most, "{}: expected block {} to have 1 to {} tokens, got {}", op, i,
            cuts.most, count);
  }
  const int64_t end = cuts.ends.as<int32_t>()[cuts.ends.dim(0) - 1];
  require(end == tokens, "{}: expected the last block to end at {}, got {}", op, tokens, end);
}

}  // namespace

int64_t block_of(const BlockCuts& cuts, int64_t token) {
  if (!cuts.defined()) return token / BlockLists::kTokens;
  const auto* ends = cuts.ends.as<int32_t>();
  return std::upper_bound(ends, ends + cuts.ends.dim(0), token) - ends;
}

std::vector<ListedTile> listed_tiles(const AttentionArgs& a, int64_t most) {
  std::vector<ListedTile> out;
  for (int64_t i = 0; i < block_count(a.blocks.queries, a.q.dim(1)); ++i) {
    const TokenSpan block = block_span(a.blocks.queries, a.q.dim(1), i);
    for (int64_t first = block.first; first < block.end; first += most)
      out.push_back({i, first, std::min(most, block.end - first)});
  }
  return out;
}

std::vector<KeyBlock> key_blocks(const AttentionArgs& a, std::span<const KeyRange> ranges, int64_t size,
                                 bool measuring) {
  if (!a.blocks.keys.defined()) return key_blocks(ranges, size, measuring);
  const KeyRange& only = ranges.front();
  std::vector<KeyBlock> out;
  for (int64_t i = 0; i < a.blocks.keys.ends.dim(0); ++i) {
    // A measure run knows only how many blocks there are.
    const TokenSpan block = measuring ? TokenSpan{0, 1} : block_span(a.blocks.keys, only.k.dim(1), i);
    out.push_back({&only, only.k.dim(1), block.first, block.count()});
  }
  return out;
}

void check_listed_blocks(const char* op, const AttentionArgs& a) {
  check_cuts(op, a.blocks.queries, a.q.dim(1)), check_cuts(op, a.blocks.keys, a.k.dim(1));
  const Tensor& indices = a.blocks.indices;
  const int64_t blocks = block_count(a.blocks.keys, a.k.dim(1)), capacity = indices.dim(3);
  for (int64_t b = 0; b < indices.dim(0); ++b)
    for (int64_t h = 0; h < indices.dim(1); ++h)
      for (int64_t i = 0; i < indices.dim(2); ++i) {
        const int64_t count = listed_count(a.blocks, b, h, i);
        require(count >= 0 && count <= capacity, "{}: expected counts[{}, {}, {}] in [0, {}], got {}", op, b,
                h, i, capacity, count);
        for (const int32_t block : listed_blocks(a.blocks, b, h, i))
          require(block >= 0 && block < blocks, "{}: expected indices[{}, {}, {}] in [0, {}), got {}", op, b,
                  h, i, blocks, block);
      }
}

double listed_pairs(const AttentionArgs& a) {
  const int64_t keys = std::min(a.blocks.indices.dim(3) * a.blocks.most_keys(), a.k.dim(1));
  return static_cast<double>(a.q.dim(1)) * static_cast<double>(keys);
}

}  // namespace tachy::ops
