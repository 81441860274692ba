// softmax(q·kᵀ·scale + biases)·v with online softmax: never an Lq x Lk matrix in memory.
// Softmax in float32. Any head dim. A query whose keys are all masked with -inf, or that a causal mask leaves
// without a key, gives zeros. lse is log Σ exp(score) over a query's keys, natural logarithm, -inf without a
// key: what the backward pass and the merging of partial softmaxes need.
#pragma once

#include <array>
#include <initializer_list>

#include "tensor/stream.h"

namespace tachy::ops {

// With this scale, ln 2, a weight is two to the power of q·k: where q already carries the usual scale and log2(e)
// (qk_norm_rope's `scale`), Hopper's kernel has an instruction a score less to do.
inline constexpr float kPowersOfTwo = 0.69314718055994530942f;

// Keys and values that lie together. A query's softmax is over all ranges it is given: cached keys and those of the
// chunk at hand, the keys of several contexts, the shards of a sequence.
struct KeyRange {
  Tensor k;         // [B, Lk, H, D] f32, inner dim contiguous, other strides free
  Tensor v;         // [B, Lk, H, D] f32, same
  Tensor length;    // optional [1] i32, where the op computes: keys [0, length) are there and the others are
                    // not looked at, as of a cache that fills. In [0, Lk]
  Tensor key_bias;  // optional [B, Lk] f32, added to every score of that key (-inf masks it)
  bool finite_bias = false;  // the caller's word that key_bias masks nothing: more implementations take it
  bool causal = false;  // query i sees keys j with j / causal_block <= (i + causal_offset) / causal_block
  int64_t causal_offset = 0;  // Lk − Lq when the queries are the last ones of the keys (a KV cache)
  int64_t causal_block = 1;   // whole blocks of keys become visible at a time (a chunk of frames)
  // With causal, causal_block 1: of the keys that a query sees so, the last `window` places only, j > i + causal_offset −
  // window; 0: all. A window on both sides is one whose causal_offset is the more.
  int64_t window = 0;
};

// The ranges after the first one: as many as a cache's parts and a chunk of its own need.
class KeyRanges {
 public:
  static constexpr int kMost = 3;
  KeyRanges() = default;
  KeyRanges(std::initializer_list<KeyRange> ranges);  // throws where there are more
  int size() const { return count_; }
  bool empty() const { return count_ == 0; }
  const KeyRange& operator[](int i) const { return ranges_[static_cast<size_t>(i)]; }

 private:
  std::array<KeyRange, kMost> ranges_;
  int count_ = 0;
};

// Which blocks of keys a block of queries attends to, for each head. Blocks are of kTokens tokens, the last ones what
// is left. The lists may be what an earlier op leaves on the device. Their blocks are in any order; one that is
// listed twice counts twice. A block of queries without any gives zeros.
// On the CPU a count beyond the capacity or an index beyond the blocks is an error. A GPU cannot report it: there
// counts and indices are brought into range, and nothing else is read.
struct BlockLists {
  static constexpr int64_t kTokens = 128;
  Tensor
      indices;    // [B or 1, H, blocks of queries, capacity] i32, where the op computes, inner dim contiguous
  Tensor counts;  // [B or 1, H, blocks of queries] i32, same: how many indices of a list are there
  bool defined() const { return indices.defined(); }
  static int64_t blocks_of(int64_t tokens) { return (tokens + kTokens - 1) / kTokens; }
};

struct AttentionArgs {
  Tensor q;                  // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor k, v;               // the first range of keys, as in KeyRange;
  Tensor length;             // of it, and so are
  Tensor key_bias;           // this
  bool finite_bias = false;  // and this,
  Tensor bias;          // optional [H, Lq, Lk] f32, added to the scores (T5's relative positions): one range
  float scale = 1;      // usually 1/sqrt(D)
  bool causal = false;  // and these of the first range
  int64_t causal_offset = 0, causal_block = 1, window = 0;
  KeyRanges more = {};  // further ranges
  BlockLists blocks =
      {};  // optional: only these keys; of one range, all of it there, without masks and biases
  // The caller's leave to round q, k, v and the softmax's weights to 8 bits, where that is faster: the result is then off
  // by about 4 % of its norm. What does not bear it is computed in bf16 all the same.
  bool eight_bits = false;
  bool eight_bits_of_few = false;  // also where keys are so few that this is slower, to see what it does
  bool accumulate = false;         // out += result, for a second softmax over other keys (image branch)
  Tensor out;                      // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor lse;  // optional [B, H, Lq] f32, written (also when accumulating: of these keys alone)

  int ranges() const { return 1 + more.size(); }
  KeyRange range(int i) const {
    if (i > 0) return more[i - 1];
    return {k, v, length, key_bias, finite_bias, causal, causal_offset, causal_block, window};
  }
  // One range whose length the host knows.
  bool whole() const { return more.empty() && !length.defined(); }
};

void attention(const AttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
