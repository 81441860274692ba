// The implementations of attention, for its table and the op runner.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/attention/attention_backward.h"
#include "ops/attention/attention_cuda.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// Query i may see the keys [first_key, visible_keys) of a range of which `keys` keys are there; it sees none
// unless the first is below the second.
inline int64_t first_key(const KeyRange& r, int64_t i) {
  return r.window == 0 ? 0 : std::max<int64_t>(0, i + r.causal_offset - r.window + 1);
}
inline int64_t visible_keys(const KeyRange& r, int64_t i, int64_t keys) {
  if (!r.causal) return keys;
  const int64_t last = i + r.causal_offset;
  return last < 0 ? 0 : std::min(keys, (last / r.causal_block + 1) * r.causal_block);
}
inline int64_t visible_keys(const AttentionArgs& a, int64_t i) {
  return visible_keys(a.range(0), i, a.k.dims[1]);
}

// How many keys of a range exist; only for a computing run on the CPU.
int64_t present_keys(const KeyRange& range);

// Keys that the CPU's kernels take at a time, all from the same range.
struct KeyBlock {
  const KeyRange* range;
  int64_t present;       // the range's keys that exist
  int64_t first, count;  // keys of this block
};
std::vector<KeyRange> all_ranges(const AttentionArgs& args);
// Divides the ranges, one after the other, into blocks of up to `size` keys. A measure run counts all keys, a
// computing run only those that exist.
std::vector<KeyBlock> key_blocks(std::span<const KeyRange> ranges, int64_t size, bool measuring);
// The number of keys of the largest range.
int64_t most_keys(const AttentionArgs& args);

// The number of blocks in the list of a block of queries and, below, the blocks; only for a computing run on
// the CPU. One list may serve the whole batch.
inline int64_t listed_count(const BlockLists& lists, int64_t b, int64_t h, int64_t query_block) {
  const Tensor& t = lists.counts;
  return t
      .as<int32_t>()[(t.dims[0] > 1 ? b * t.strides[0] : 0) + h * t.strides[1] + query_block * t.strides[2]];
}
inline std::span<const int32_t> listed_blocks(const BlockLists& lists, int64_t b, int64_t h,
                                              int64_t query_block) {
  const Tensor& t = lists.indices;
  return {t.as<int32_t>() + (t.dims[0] > 1 ? b * t.strides[0] : 0) + h * t.strides[1] +
              query_block * t.strides[2],
          static_cast<size_t>(listed_count(lists, b, h, query_block))};
}
// Block `i` of `tokens` tokens, which are cut or not; only for a computing run on the CPU.
struct TokenSpan {
  int64_t first, end;
  int64_t count() const { return end - first; }
};
inline TokenSpan block_span(const BlockCuts& cuts, int64_t tokens, int64_t i) {
  if (!cuts.defined()) return {i * BlockLists::kTokens, std::min(tokens, (i + 1) * BlockLists::kTokens)};
  const auto* ends = cuts.ends.as<int32_t>();
  return {i > 0 ? ends[i - 1] : 0, ends[i]};
}
inline int64_t block_count(const BlockCuts& cuts, int64_t tokens) {
  return cuts.defined() ? cuts.ends.dim(0) : BlockLists::blocks_of(tokens);
}
int64_t block_of(const BlockCuts& cuts, int64_t token);  // that a token lies in
// The tiles of queries that the CPU's kernels take: parts of one block each, of up to `most` queries.
struct ListedTile {
  int64_t block, first, count;
};
std::vector<ListedTile> listed_tiles(const AttentionArgs& args, int64_t most);
// The blocks of keys of a call: those of its lists, or blocks of `size` keys.
std::vector<KeyBlock> key_blocks(const AttentionArgs& args, std::span<const KeyRange> ranges, int64_t size,
                                 bool measuring);

// An upper bound for the (query, key) pairs of a head; the contents of lists on a device are not known here.
double listed_pairs(const AttentionArgs& args);
void check_block_lists(const char* op, const AttentionArgs& args);    // shapes and options
void check_listed_blocks(const char* op, const AttentionArgs& args);  // counts and indices, on the CPU

// Throws unless shapes, strides and options fit together; q, k, v and out have `dtype`,
// biases and lse have `wide`.
void check_attention(const char* op, const AttentionArgs& args, DType dtype, DType wide);

// The definition: plain loops, float64 inside; q, k and v are rounded if the stream asks for bf16.
void attention_ref(const AttentionArgs& args, Stream& stream);
// The definition in float32, adding in order and for bf16 with rounded weights; its error sets the tolerance.
void attention_working(const AttentionArgs& args, Stream& stream);
std::optional<Refusal> attention_why_not_cpu(const AttentionArgs& args, const Stream& stream);
void attention_cpu(const AttentionArgs& args, Stream& stream);  // Highway, in float32
// Rounds q, k, v and the softmax's weights to bf16, if the stream asks for it and the CPU has it.
std::optional<Refusal> attention_why_not_bf16(const AttentionArgs& args, const Stream& stream);
void attention_bf16(const AttentionArgs& args, Stream& stream);

std::span<const Impl<AttentionArgs>> attention_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void attention_backward_ref(const AttentionBackwardArgs& args, Stream& stream);
void attention_backward_working(const AttentionBackwardArgs& args, Stream& stream);
std::span<const Impl<AttentionBackwardArgs>> attention_backward_table();

}  // namespace tachy::ops
