// Low-rank adapters beside a linear layer, a whole group of them in one call:
//   y (+)= Σ_i scale_i · (x · A_iᵀ) · B_iᵀ        the sum of all, or
//   y[m] (+)= scale_i · (x[m] · A_iᵀ) · B_iᵀ      with i = index[m], of which −1 means none
// One adapter is a group of one. scale · x · Aᵀ has few columns and stays in float32 (in f16 on a GPU it must be
// below 65504, or y is NaN); y is rounded once, with what was there when it is added to.
//
// nn/adapter_set composes the same of gemm for adapters of layers that are known at load; this op is for adapters
// that change from row to row, for few rows, and for callers with tensors of their own.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LoraArgs {
  Tensor x;       // [M, K] f32 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor a;       // [n, r, K] f32, f16 or bf16 (on a GPU x's dtype), outer dims may be strided
  Tensor b;       // [n, N, r], of a's dtype, outer dims may be strided
  Tensor scales;  // optional [n] f32; absent: 1
  // Optional [M] i32: each row's adapter, or −1. On a GPU any other value means none, too: its maker answers
  // for the values, and no value makes a kernel read elsewhere. On the CPU it is an error.
  Tensor index;
  bool accumulate = false;  // adds to y
  Tensor y;                 // [M, N], of x's dtype, rows may be strided; no part of x
};

void lora(const LoraArgs& args, Stream& stream);

}  // namespace tachy::ops
