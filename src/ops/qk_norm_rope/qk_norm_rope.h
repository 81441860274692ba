// The query/key path of a Wan self-attention in one pass: RMSNorm over all C = heads·D channels, then 3-D
// rope on each head. Without tables it is the cross-attention's query/key norm. It can also norm each head by
// itself, as action modules need.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct QkNormRopeArgs {
  Tensor x;       // [B, L, C] f32, rows may be strided
  Tensor weight;  // optional [C] f32
  float eps = 1e-6f;
  float scale = 1;  // factor of y but not of y2: an attention's scale times log2(e), for its kPowersOfTwo
  int heads = 1;
  // Norms each head by itself, over its D channels, without weights. The backward pass does not support it.
  bool norm_heads = false;
  Tensor cos;  // optional [L, D/2] f32, D = C / heads
  Tensor sin;  // optional [L, D/2] f32
  Tensor y;    // [B, L, C] f32, rows may be strided, may alias x
  // Optional second tensor of the same shape with its own weight: the keys beside the queries, computed in
  // the same pass with the same tables. On the GPU all four tensors have one dtype (they may be slices of one
  // qkv buffer, in place).
  Tensor x2, weight2, y2;
};

void qk_norm_rope(const QkNormRopeArgs& args, Stream& stream);

}  // namespace tachy::ops
