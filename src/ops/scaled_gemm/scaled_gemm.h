// Linear layer in 8 bits: x and the weight are codes, with one scale per row of x and one per row of the
// weight (ops/quantize makes them, with blocks of {1, 0}):
//   y = act(x_scale[m]·weight_scale[n]·Σ_k x[m, k]·weight[n, k] + bias[n] + addend[m, n])
// PyTorch calls such a product scaled_mm (row-wise scales). On a CPU int8 is the fast kind: its sums are
// exact in 32 bits, so they are the same on every instruction set.
#pragma once

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct ScaledGemmArgs {
  Tensor x;        // [M, K] f8_e4m3 or i8, rows may be strided
  Tensor x_scale;  // [M] f32, contiguous
  Tensor weight;   // [N, K] of x's dtype, contiguous
  // Optional, on a CPU and for i8: the result of pack_scaled_gemm_weight; `weight` then needs a shape and a
  // dtype but no data.
  Tensor packed;
  Tensor weight_scale;  // [N] f32, contiguous
  Tensor bias;          // optional [N], of y's dtype
  Tensor addend;        // optional [M, N] of y's dtype, rows may be strided, may alias y
  Activation act = Activation::none;
  Tensor y;  // [M, N] f32 (on a GPU also 16-bit), rows may be strided
};

void scaled_gemm(const ScaledGemmArgs& args, Stream& stream);

// For a CPU. The layout is the same on every instruction set.
int64_t packed_scaled_gemm_bytes(int64_t n, int64_t k);
// Packs weight [N, K] i8 as u8 [packed_scaled_gemm_bytes(N, K)]. Without it each product packs for itself.
void pack_scaled_gemm_weight(const Tensor& weight, const Tensor& packed, Stream& stream);

}  // namespace tachy::ops
