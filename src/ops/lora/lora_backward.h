// Backward of the low-rank adapters (lora.h). With u_i = x · A_iᵀ and v_i = dy · B_i, over the rows that use i:
//   dx = Σ_i scale_i · v_i · A_i,  dA_i = scale_i · v_iᵀ · x,  dB_i = scale_i · dyᵀ · u_i,  dscale_i = Σ u_i · v_i
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LoraBackwardArgs {
  Tensor x;        // [M, K] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor a;        // [n, r, K]; all tensors have one dtype; outer dims may be strided
  Tensor b;        // [n, N, r]
  Tensor scales;   // optional [n], 1 by default (on a GPU these and their gradient are f32)
  Tensor index;    // optional [M] i32: each row's adapter, or −1; without it, the sum of all
  Tensor dy;       // [M, N], rows may be strided
  Tensor dx;       // optional [M, K], rows may be strided
  Tensor da;       // optional [n, r, K], outer dims may be strided
  Tensor db;       // optional [n, N, r], outer dims may be strided
  Tensor dscales;  // optional [n]
};

void lora_backward(const LoraBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
