// The linear layer through cuBLASLt. Bias, GELU (tanh) and the residual go into the product's epilogue;
// steps for which cuBLASLt has no epilogue (other activations, multiply, gate) take one more pass over a
// float32 product in scratch, a band of rows at a time, so that the product mostly stays in the cache
// and memory stays small. Products::tf32 lets the library round float32 operands to TF32; otherwise
// float32 products are IEEE's.
#include <algorithm>

#include "cuda/gpu_family.h"
#include "cuda/vendor/cublaslt.h"
#include "ops/gemm/gemm_cuda.h"
#include "ops/gemm/gemm_impl.h"

namespace tachy::ops {
namespace {

using cuda::CublasLt;
using cuda::MatmulPlan;
using cuda::MatmulShape;

struct Work {
  const MatmulPlan* whole = nullptr;                  // the product with the epilogue inside
  const MatmulPlan *band = nullptr, *last = nullptr;  // a float32 product of some rows
  int64_t band_rows = 0;
  std::string why;
};

bool fits_epilogue(const GemmArgs& a) {
  if (a.multiply.defined() || a.gate.defined()) return false;
  if (a.act == Activation::gelu_tanh) return !a.residual.defined() && a.y.dtype != DType::f32;
  return a.act == Activation::none;
}

MatmulShape shape_of(const GemmArgs& a, const Stream& stream) {
  return {.m = a.x.dims[0],
          .n = a.weight.dims[0],
          .k = a.weight.dims[1],
          .x_row = cuda::row_stride(a.x),
          .w_row = a.weight.dims[1],
          .y_row = cuda::row_stride(a.y),
          .type = a.x.dtype,
          .out = a.y.dtype,
          .bias = a.bias.defined(),
          .gelu = a.act == Activation::gelu_tanh,
          .tf32 = a.x.dtype == DType::f32 && stream.precision.products == Products::tf32,
          .alignment = cuda::alignment_of({&a.x, &a.weight, &a.y, &a.residual, &a.bias})};
}

Work work_of(CublasLt& lt, const GemmArgs& a, const Stream& stream) {
  Work work;
  if (fits_epilogue(a)) {
    MatmulShape shape = shape_of(a, stream);
    if (a.residual.defined()) shape.c = true, shape.c_row = cuda::row_stride(a.residual);
    work.whole = &lt.plan(shape);
    if (work.whole->why.empty()) return work;
    work.whole = nullptr;
  }
  MatmulShape shape = shape_of(a, stream);
  shape.out = DType::f32, shape.y_row = shape.n, shape.bias = shape.gelu = false;
  shape.alignment = cuda::alignment_of({&a.x, &a.weight});
  if (shape.n % 4) shape.alignment = std::min(shape.alignment, shape.n % 2 ? 4 : 8);
  const int64_t m = shape.m;
  const int64_t bytes = cuda::family_of(stream.gpu->info()).product_bytes;
  work.band_rows = std::min(m, std::max<int64_t>(128, bytes / (4 * shape.n) / 128 * 128));
  shape.m = work.band_rows, work.band = &lt.plan(shape);
  shape.m = m % work.band_rows ? m % work.band_rows : work.band_rows, work.last = &lt.plan(shape);
  work.why = work.band->why.empty() ? work.last->why : work.band->why;
  return work;
}

}  // namespace

std::optional<Refusal> gemm_why_not_cublaslt(const GemmArgs& a, const Stream& stream) {
  if (a.x.dtype != a.weight.dtype) return Refusal::arguments("the weight has another dtype");
  if (a.y.dtype != a.x.dtype && a.y.dtype != DType::f32)
    return Refusal::arguments("an output of another 16-bit dtype");
  std::string why;
  CublasLt* lt = CublasLt::of(*stream.gpu, why);
  if (!lt) return Refusal::library(why);
  const Work work = work_of(*lt, a, stream);
  if (!work.why.empty()) return Refusal::library(work.why);
  return std::nullopt;
}

void gemm_cublaslt(const GemmArgs& a, Stream& stream) {
  std::string why;
  CublasLt& lt = *CublasLt::of(*stream.gpu, why);
  const Work work = work_of(lt, a, stream);
  ArenaScope scope(*stream.arena);
  void* workspace = stream.arena->bytes(cuda::kMatmulWorkspaceBytes);
  if (work.whole) {
    if (stream.measuring()) return;
    lt.run(*work.whole, {.x = a.x.data,
                         .w = a.weight.data,
                         .bias = a.bias.data,
                         .c = a.residual.data,
                         .y = a.y.data,
                         .workspace = workspace});
    return;
  }
  const Tensor product = stream.arena->f32({work.band_rows, a.weight.dims[0]});
  if (stream.measuring()) return;
  const int64_t m = a.x.dims[0];
  for (int64_t first = 0; first < m; first += work.band_rows) {
    const int64_t rows = std::min(work.band_rows, m - first);
    const MatmulPlan& plan = rows == work.band_rows ? *work.band : *work.last;
    lt.run(plan, {.x = a.x.slice(0, first, first + rows).data,
                  .w = a.weight.data,
                  .y = product.data,
                  .workspace = workspace});
    gemm_epilogue_cuda(a, product, first, rows, stream);
  }
}

}  // namespace tachy::ops
