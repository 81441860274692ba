// A whole group of low-rank adapters beside a linear layer, in one call:
//   y (+)= Σ_i scale_i · (x · A_iᵀ) · B_iᵀ        the sum of all, or
//   y[m] (+)= scale_i · (x[m] · A_iᵀ) · B_iᵀ      with i = index[m]; −1 means none
// A single adapter is a group of one. scale · x · Aᵀ has few columns and stays in float32 (in f16
// on a GPU it must be below 65504, or y is NaN). y is rounded once, together with its old value if
// the result is added to it.
//
// nn/adapter_set computes the same with gemm, for adapters of layers that are known at load. This op is for
// adapters that change from row to row, for few rows, and for callers with their own tensors.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LoraArgs {
  Tensor x;       // [M, K] f32 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor a;       // [n, r, K] f32, f16 or bf16 (on a GPU x's dtype), outer dims may be strided
  Tensor b;       // [n, N, r], of a's dtype, outer dims may be strided
  Tensor scales;  // optional [n] f32, 1 by default
  // Optional [M] i32: each row's adapter, or −1. On the CPU any other value is an error. On a GPU it means
  // none, too: the values are the responsibility of the code that makes the tensor, but no value makes a
  // kernel read elsewhere.
  Tensor index;
  bool accumulate = false;  // adds to y
  Tensor y;                 // [M, N], of x's dtype, rows may be strided; must not overlap x
};

void lora(const LoraArgs& args, Stream& stream);

}  // namespace tachy::ops
