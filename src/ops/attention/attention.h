// softmax(q·kᵀ·scale + biases)·v with online softmax: never an Lq x Lk matrix in memory.
// Softmax in float32. Any head dim. A query whose keys are all masked with -inf, or that a causal mask leaves
// without a key, gives zeros. lse is log Σ exp(score) over a query's keys, natural logarithm, -inf without a
// key: what the backward pass and the merging of partial softmaxes need.
#pragma once

#include "tensor/memory.h"

namespace tachy::ops {

// With this scale, ln 2, a weight is two to the power of q·k: where q already carries the usual scale and log2(e)
// (qk_norm_rope's `scale`), Hopper's kernel has an instruction a score less to do.
inline constexpr float kPowersOfTwo = 0.69314718055994530942f;

struct AttentionArgs {
  Tensor q;                   // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor k;                   // [B, Lk, H, D] f32, same
  Tensor v;                   // [B, Lk, H, D] f32, same
  Tensor key_bias;            // optional [B, Lk] f32, added to every score of that key (-inf masks it)
  bool finite_bias = false;   // the caller's word that key_bias masks nothing: more implementations take it
  Tensor bias;                // optional [H, Lq, Lk] f32, added to the scores (T5's relative positions)
  float scale = 1;            // usually 1/sqrt(D)
  bool causal = false;        // query i sees keys j <= i + causal_offset
  int64_t causal_offset = 0;  // Lk − Lq when the queries are the last ones of the keys (a KV cache)
  bool accumulate = false;    // out += result, for a second softmax over other keys (image branch)
  Tensor out;                 // [B, Lq, H, D] f32, inner dim contiguous, other strides free
  Tensor lse;  // optional [B, H, Lq] f32, written (also when accumulating: of these keys alone)
};

void attention(const AttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
