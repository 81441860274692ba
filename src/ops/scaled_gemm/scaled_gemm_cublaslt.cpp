// The linear layer in 8 bits through cuBLASLt's outer-vector scales (Hopper), with bias, GELU (tanh) and the
// addend in the product's epilogue. Accumulation is the tensor cores' own (about 14 bits of a partial sum).
// Compared with full sums this adds an error of 1.9e-3 of the result, in addition to the 3.7e-2 of rounding
// to e4m3 (bench/notes/eight_bit_products.md); full sums would take 10 to 13 % longer.
#include <algorithm>

#include "cuda/vendor/cublaslt.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

using cuda::CublasLt;
using cuda::MatmulShape;

MatmulShape shape_of(const ScaledGemmArgs& a) {
  MatmulShape shape{.m = a.x.dims[0],
                    .n = a.weight.dims[0],
                    .k = a.weight.dims[1],
                    .x_row = cuda::row_stride(a.x),
                    .w_row = a.weight.dims[1],
                    .y_row = cuda::row_stride(a.y),
                    .type = a.x.dtype,
                    .out = a.y.dtype,
                    .bias = a.bias.defined(),
                    .gelu = a.act == Activation::gelu_tanh,
                    .scales = true,
                    .alignment = cuda::alignment_of({&a.x, &a.weight, &a.y, &a.addend, &a.bias})};
  if (a.addend.defined()) shape.c = true, shape.c_row = cuda::row_stride(a.addend);
  return shape;
}

}  // namespace

std::optional<Refusal> scaled_gemm_why_not_cublaslt(const ScaledGemmArgs& a, const Stream& stream) {
  if (a.x.dtype != DType::f8_e4m3) return Refusal::arguments("its scales a row are for e4m3 alone");
  if (a.act != Activation::none && a.act != Activation::gelu_tanh)
    return Refusal::arguments("an activation that it has no epilogue for");
  if (a.y.dtype == DType::f32) return Refusal::arguments("an output of float32");
  if (stream.gpu->info().capability() < 90) return Refusal::arguments("scales a row need a Hopper GPU");
  const MatmulShape shape = shape_of(a);
  if (shape.alignment < 16 || shape.k % 16) return Refusal::arguments("rows that do not begin at 16 bytes");
  std::string why;
  CublasLt* lt = CublasLt::of(*stream.gpu, why);
  if (!lt) return Refusal::library(why);
  const auto& plan = lt->plan(shape);
  if (!plan.why.empty()) return Refusal::library(plan.why);
  return std::nullopt;
}

void scaled_gemm_cublaslt(const ScaledGemmArgs& a, Stream& stream) {
  std::string why;
  CublasLt& lt = *CublasLt::of(*stream.gpu, why);
  const ArenaScope scope(*stream.arena);
  void* workspace = stream.arena->bytes(cuda::kMatmulWorkspaceBytes);
  const auto& plan = lt.plan(shape_of(a));
  if (stream.measuring()) return;
  lt.run(plan, {.x = a.x.data,
                .w = a.weight.data,
                .x_scale = a.x_scale.data,
                .w_scale = a.weight_scale.data,
                .bias = a.bias.data,
                .c = a.addend.data,
                .y = a.y.data,
                .workspace = workspace});
}

}  // namespace tachy::ops
