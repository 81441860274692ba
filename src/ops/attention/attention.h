// softmax(q·kᵀ·scale + biases)·v with online softmax, so that an Lq x Lk matrix is never in memory. The
// softmax is in float32. Any head dim. A query gives zeros if all its keys are masked with -inf, or if a
// causal mask leaves it no key. lse is log Σ exp(score) over a query's keys (natural logarithm, -inf without
// a key), which the backward pass and the merging of partial softmaxes need.
#pragma once

#include <array>
#include <initializer_list>

#include "tensor/stream.h"

namespace tachy::ops {

// With this scale, ln 2, a weight is two to the power of q·k. If q already contains the usual scale and
// log2(e) (qk_norm_rope's `scale`), Hopper's kernel saves one instruction per score.
inline constexpr float kPowersOfTwo = 0.69314718055994530942f;

// Keys and values that lie together. A query's softmax is over all ranges that it is given, for example
// cached keys and those of the current chunk, the keys of several contexts, or a sequence's shards.
struct KeyRange {
  Tensor k;  // [B, Lk, H, D] f32, inner dim contiguous, other strides free
  Tensor v;  // [B, Lk, H, D] f32, same
  // Optional [1] i32, where the op computes, in [0, Lk]: only keys [0, length) exist and are read, as in a
  // cache that is being filled.
  Tensor length;
  Tensor key_bias;  // optional [B, Lk] f32, added to every score of that key (-inf masks it)
  // The caller promises that key_bias masks nothing, so that more implementations accept it.
  bool finite_bias = false;
  bool causal = false;  // query i sees keys j with j / causal_block <= (i + causal_offset) / causal_block
  int64_t causal_offset = 0;  // Lk − Lq if the queries belong to the last keys (a KV cache)
  int64_t causal_block = 1;   // whole blocks of keys become visible at a time (a chunk of frames)
  // If not 0, which needs `causal` and causal_block 1, a query sees only the last `window` of the keys that
  // it may see, those with j > i + causal_offset − window. A larger causal_offset makes the window reach to
  // both sides.
  int64_t window = 0;
};

// The ranges after the first one, with room for the parts of a cache and the current chunk.
class KeyRanges {
 public:
  static constexpr int kMost = 3;
  KeyRanges() = default;
  KeyRanges(std::initializer_list<KeyRange> ranges);  // throws if there are more
  int size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const KeyRange& operator[](int i) const { return ranges_[static_cast<size_t>(i)]; }

 private:
  std::array<KeyRange, kMost> ranges_;
  int count_ = 0;
};

// Cuts tokens into blocks of their own sizes, such as the cubes of a grid that they do not divide.
struct BlockCuts {
  Tensor ends;       // [blocks] i32, where the op computes: where each block ends; the last one at the end
  int64_t most = 0;  // tokens of the largest block
  bool defined() const { return ends.defined(); }
};

// The blocks of keys that a block of queries attends to, for each head. Blocks have kTokens tokens, except
// that the last one may have fewer, or they are cut as `queries` and `keys` say. An earlier op may have made the lists
// on the device. A list's blocks are in any order; one that is listed twice counts twice. A block of queries with an empty list gives zeros.
// On the CPU a count beyond the capacity or an index beyond the blocks is an error. A GPU cannot report it:
// there counts, indices and ends are clamped, so nothing outside is read.
struct BlockLists {
  static constexpr int64_t kTokens = 128;
  // [B or 1, H, blocks of queries, capacity] i32, where the op computes, inner dim contiguous.
  Tensor indices;
  Tensor counts;  // [B or 1, H, blocks of queries] i32, like `indices`: how many indices each list has
  BlockCuts queries = {}, keys = {};
  bool defined() const { return indices.defined(); }
  bool cut() const { return queries.defined() || keys.defined(); }
  int64_t most_keys() const { return keys.defined() ? keys.most : kTokens; }  // of a block
  static int64_t blocks_of(int64_t tokens) { return (tokens + kTokens - 1) / kTokens; }
};

struct AttentionArgs {
  Tensor q;     // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor k, v;  // k … finite_bias describe the first range of keys, as in KeyRange
  Tensor length;
  Tensor key_bias;
  bool finite_bias = false;
  // Optional [H, Lq, Lk] f32, added to the scores (T5's relative positions); one range only.
  Tensor bias;
  float scale = 1;      // usually 1/sqrt(D)
  bool causal = false;  // causal … window apply to the first range, as in KeyRange
  int64_t causal_offset = 0, causal_block = 1, window = 0;
  KeyRanges more = {};     // further ranges
  BlockLists blocks = {};  // optional: attend only to these; needs one range, no `length`, masks or biases
  // Allows rounding q, k, v and the softmax's weights to 8 bits where that is faster; the result is then off
  // by about 4 % of its norm, on a GPU other than Hopper by 1.4 %. Rows for which 8 bits are too coarse are still computed in bf16.
  bool eight_bits = false;
  // Rounds even where so few keys make 8 bits slower, to show the effect.
  bool eight_bits_of_few = false;
  bool accumulate = false;  // out += result, for a second softmax over other keys (image branch)
  Tensor out;               // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor lse;               // optional [B, H, Lq] f32, written; when accumulating, it covers only these keys

  int ranges() const { return 1 + more.size(); }
  KeyRange range(int i) const {
    if (i > 0) return more[i - 1];
    return {k, v, length, key_bias, finite_bias, causal, causal_offset, causal_block, window};
  }
  // Whether there is one range whose length the host knows.
  bool whole() const { return more.empty() && !length.defined(); }
};

void attention(const AttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
