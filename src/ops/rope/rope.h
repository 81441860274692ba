// Rotary position embedding in real arithmetic with cached tables: (a, b) → (a·cos − b·sin, a·sin + b·cos)
// for the pairs of each head, which are channels (2p, 2p+1) as in Wan and LTX, or (p, p + D/2) as in LLaMA's
// family. Angles are position · theta^(−2p / D), computed in float64. The 3-D table splits a head's D/2 pairs
// over frame, row and column: axis dims D − 4·(D/6), 2·(D/6), 2·(D/6). In reverse time the last frame (or
// token) has position 0 and the first one the highest.
#pragma once

#include <span>

#include "tensor/stream.h"

namespace tachy::ops {

enum class RopePairs {
  adjacent,  // (2p, 2p + 1)
  halves,    // (p, p + D/2)
};

struct RopeArgs {
  Tensor x;    // [B, L, H, D] f32, inner dim contiguous
  Tensor cos;  // [L, D/2] f32
  Tensor sin;  // [L, D/2] f32
  RopePairs pairs = RopePairs::adjacent;
  Tensor y;  // [B, L, H, D] f32, may alias x
};

void rope(const RopeArgs& args, Stream& stream);

struct RopeTime {
  int64_t first = 0;     // position of the first frame (or token); with `reverse`, of the last one
  bool reverse = false;  // positions count down
  // RIFLEx (Zhao et al. 2025): this pair (counted from 1) makes 0.9 of a turn over all positions, so that a
  // clip that is longer than those in training does not start over; 0 means no pair.
  int64_t riflex = 0;
};

// Fills cos and sin, both [length, head_dim/2] f32.
void rope_table_1d(int64_t length, int64_t head_dim, double theta, const Tensor& cos, const Tensor& sin,
                   const RopeTime& time = {});

// Fills cos and sin, both [frames·rows·columns, head_dim/2] f32, with tokens in frame, row, column order.
// With `place`, a permutation of them, the i-th token of that order is in row place[i].
void rope_table_3d(int64_t frames, int64_t rows, int64_t columns, int64_t head_dim, double theta,
                   const Tensor& cos, const Tensor& sin, const RopeTime& time = {},
                   std::span<const int32_t> place = {});

}  // namespace tachy::ops
