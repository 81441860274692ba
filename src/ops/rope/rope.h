// Rotary position embedding in real arithmetic with cached tables: channel pairs (2p, 2p+1) of each head,
// (a, b) → (a·cos − b·sin, a·sin + b·cos). The 3-D table splits a head's D/2 pairs over frame, row and
// column: axis dims D − 4·(D/6), 2·(D/6), 2·(D/6), angle = position · theta^(−2p / axis dim); made in
// float64.
#pragma once

#include "tensor/memory.h"

namespace tachy::ops {

struct RopeArgs {
  Tensor x;    // [B, L, H, D] f32, inner dim contiguous
  Tensor cos;  // [L, D/2] f32
  Tensor sin;  // [L, D/2] f32
  Tensor y;    // [B, L, H, D] f32, may alias x
};

void rope(const RopeArgs& args, Stream& stream);

// Fills cos and sin, both [frames·rows·columns, head_dim/2] f32, tokens in frame, row, column order.
void rope_table_3d(int64_t frames, int64_t rows, int64_t columns, int64_t head_dim, double theta, Tensor cos,
                   Tensor sin);

}  // namespace tachy::ops
