// Linear layer with its epilogue: t = act(x·Wᵀ + bias) [· multiply];  y = t, or y = residual + gate[row]·t.
//
// The weight is used in place (a mapped file, any float dtype): slabs of it are widened and packed into
// scratch as they are needed. If memory allows, a layer packs once at load and passes `packed`. With
// Compute::bf16, on a CPU that has it, x and weights are rounded to bf16; sums and epilogue stay float32.
#pragma once

#include <span>

#include "ops/activation_kind.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct GemmArgs {
  Tensor x;       // [M, K] f32, rows may be strided
  Tensor weight;  // [N, K] f32, f16, bf16, f8_e4m3 or f8_e5m2, contiguous
  Tensor packed;  // optional: the weight packed by pack_gemm_weight, u8 [packed_gemm_bytes(N, K)]
  Tensor bias;    // optional [N] f32
  Activation act = Activation::none;
  Tensor multiply;  // optional [M, N] f32, rows may be strided
  Tensor gate;      // optional [R, N] f32, rows may be strided; needs residual
  Tensor row;       // optional [M] i32: the row of `gate` for each token, 0 by default
  Tensor residual;  // optional [M, N] f32, may alias y
  Tensor y;         // [M, N] f32, rows may be strided
};

void gemm(const GemmArgs& args, Stream& stream);
// Whether this call would read only `packed`, so that `weight` needs a shape and a dtype but no data. The
// definition (optimisation level none) reads only the weight.
bool gemm_reads_packed(const GemmArgs& args, const Stream& stream);

// `compute` is that of the stream, which must be the same at packing and at use.
int64_t packed_gemm_bytes(int64_t n, int64_t k, Compute compute = Compute::f32);
// Packs parts [N_i, K] of one float dtype, stacked in order, into u8 [packed_gemm_bytes(Σ N_i, K,
// stream.precision.compute)].
void pack_gemm_weight(std::span<const Tensor> parts, const Tensor& packed, Stream& stream);
inline void pack_gemm_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  pack_gemm_weight({&weight, 1}, packed, stream);
}

}  // namespace tachy::ops
