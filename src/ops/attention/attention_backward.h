// Backward of attention by recomputation: nothing of size Lq x Lk is kept from the
// forward pass, only out and lse.
//   p_ij = exp(s_ij − lse_i),  δ_i = Σ_c dout_ic·out_ic,  t_ij = p_ij·(dout_i·v_j − δ_i)
//   dq_i = scale·Σ_j t_ij·k_j,  dk_j = scale·Σ_i t_ij·q_i,  dv_j = Σ_i p_ij·dout_i
// The biases are constants.
#pragma once

#include "ops/attention/attention.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct AttentionBackwardArgs {
  // The arguments of the forward pass, in f32 or f64, or on a GPU in the forward pass's dtypes; out and lse
  // hold its results. It must not accumulate, and has one range of keys without a length, causal_block 1 and
  // no window.
  AttentionArgs forward;
  Tensor dout;  // [B, Lq, H, D], inner dim contiguous, like all tensors here
  Tensor dq;    // [B, Lq, H, D]
  Tensor dk;    // [B, Lk, H, D]
  Tensor dv;    // [B, Lk, H, D]
};

void attention_backward(const AttentionBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
