// Checks lists of key blocks on the host: their form, and their contents if the host can read them.
#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void check_block_lists(const char* op, const AttentionArgs& a) {
  const BlockLists& lists = a.blocks;
  const int64_t b = a.q.dim(0), h = a.q.dim(2), queries = BlockLists::blocks_of(a.q.dim(1));
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

void check_listed_blocks(const char* op, const AttentionArgs& a) {
  const Tensor& indices = a.blocks.indices;
  const int64_t blocks = BlockLists::blocks_of(a.k.dim(1)), capacity = indices.dim(3);
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
  const int64_t keys = std::min(a.blocks.indices.dim(3) * BlockLists::kTokens, a.k.dim(1));
  return static_cast<double>(a.q.dim(1)) * static_cast<double>(keys);
}

}  // namespace tachy::ops
