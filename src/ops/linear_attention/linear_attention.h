// Linear attention of every token to all tokens, the part of Sparse-Linear Attention (Zhang et al., 2025) that
// blocks of keys leave out:
//   out = φ(q)·(φ(k)ᵀ·v) / (1e-5 + φ(q)·Σφ(k)),   φ(x) = softmax of a head's channels
// In the definition sums over tokens are float64, in the order of the tokens.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LinearAttentionArgs {
  Tensor q;     // [B, Lq, H, D] f32 (on a GPU f16 or bf16, too), inner dim contiguous, other strides free
  Tensor k, v;  // [B, Lk, H, D], same
  float q_scale = 1;  // q is multiplied by it first
  Tensor out;         // [B, Lq, H, D], same
};

void linear_attention(const LinearAttentionArgs& args, Stream& stream);

}  // namespace tachy::ops
