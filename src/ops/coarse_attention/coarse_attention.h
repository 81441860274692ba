// Attention between blocks of tokens, each of which its means stand for:
//   score[b, h, i, j] = scale · mean_q[b, h, i] · mean_k[b, h, j]
//   out[b, i, h] = Σ_j softmax_j(score[b, h, i, j]) · mean_v[b, h, j]
// The lists have, for each head and block of queries, the `keep` blocks of keys with the largest scores, for
// block-sparse attention over the tokens themselves (attention.h's BlockLists); each list is ascending, and of
// equal blocks it takes the first. This is the coarse half of Video Sparse Attention (Zhang et al., 2025), and
// without `out` the choice of Sparse-Linear Attention (Zhang et al., 2025). Unlike choose_blocks, a block need not
// attend to itself.
//
// The means are rounded to float32; sums of tokens and scores are float64, added in the order of tokens and channels,
// so the lists are the same everywhere. A score of NaN counts as -inf.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

// Blocks of tokens that are not cut otherwise, as in BlockLists.
inline constexpr int64_t kCoarseTokens = 128;
inline int64_t coarse_blocks(const Tensor& ends, int64_t tokens) {
  return ends.defined() ? ends.dim(0) : (tokens + kCoarseTokens - 1) / kCoarseTokens;
}

struct CoarseAttentionArgs {
  Tensor q, k;  // [B, L, H, D] f32 (on a GPU f16 or bf16, too), inner dim contiguous, other strides free
  // Optional [blocks] i32, contiguous, where the op computes: where each block ends, ascending; the last one ends at L. Not given: blocks of
  // kCoarseTokens.
  Tensor query_ends, key_ends;
  float scale = 1;
  int64_t keep = 1;  // blocks of keys per list
  Tensor v, out;     // optional [B, L, H, D] like k, and [B, blocks of queries, H, D] f32, contiguous
  Tensor indices;    // [B, H, blocks of queries, keep] i32, contiguous
  Tensor counts;     // [B, H, blocks of queries] i32, contiguous; every value is `keep`
};

void coarse_attention(const CoarseAttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
