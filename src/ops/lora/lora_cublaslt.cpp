// The sum of all adapters over many rows as two of cuBLASLt's products: low = x·Aᵀ in float32, and y (+)=
// low·Bᵀ with low split into two 16-bit values that lie side by side, and B twice, one below the other. The
// product is doubled so that only y is rounded; the cost is hidden by the memory traffic of reading and
// writing y.
#include <algorithm>

#include "cuda/vendor/cublaslt.h"
#include "ops/lora/lora_impl.h"
#include "ops/lora/lora_split.h"

namespace tachy::ops {
namespace {

using cuda::CublasLt;
using cuda::MatmulPlan;

// With fewer rows most of the time is spent on launches, and a single kernel is better.
constexpr int64_t kFewRows = 1024;
constexpr int64_t kMostRank = 1024;

struct Products {
  const MatmulPlan *down, *up;
};

Products products_of(CublasLt& lt, const LoraArgs& a, const LoraShape& s) {
  const int64_t rank = s.adapters * s.rank;
  return {&lt.plan({.m = s.m,
                    .n = rank,
                    .k = s.k,
                    .x_row = a.x.strides[0],
                    .w_row = s.k,
                    .y_row = rank,
                    .type = a.x.dtype,
                    .out = DType::f32}),
          &lt.plan({.m = s.m,
                    .n = s.n,
                    .k = 2 * rank,
                    .x_row = 2 * rank,
                    .w_row = 2 * rank,
                    .y_row = a.y.strides[0],
                    .c_row = a.accumulate ? a.y.strides[0] : 0,
                    .type = a.x.dtype,
                    .out = a.x.dtype,
                    .c = a.accumulate})};
}

}  // namespace

std::optional<Refusal> lora_why_not_cublaslt(const LoraArgs& a, const Stream& stream) {
  const LoraShape s = lora_shape("lora", a.x, a.a, a.b);
  if (a.index.defined()) return Refusal::arguments("an adapter a row");
  if (s.m < kFewRows) return Refusal::arguments("few rows");
  if (a.x.dtype == DType::f32) return Refusal::arguments("it takes bf16 and f16");
  if (s.adapters * s.rank % 8 || s.adapters * s.rank > kMostRank)
    return Refusal::arguments("ranks whose sum is no multiple of 8, or large");
  if (cuda::alignment_of({&a.x, &a.a, &a.y}) < 16 || s.n % 8 || !a.a.contiguous())
    return Refusal::arguments("rows that do not begin at 16 bytes");
  std::string why;
  CublasLt* lt = CublasLt::of(*stream.gpu, why);
  if (!lt) return Refusal::library(why);
  const Products products = products_of(*lt, a, s);
  for (const MatmulPlan* plan : {products.down, products.up})
    if (!plan->why.empty()) return Refusal::library(plan->why);
  return std::nullopt;
}

void lora_cublaslt(const LoraArgs& a, Stream& stream) {
  const LoraShape s = lora_shape("lora", a.x, a.a, a.b);
  std::string why;
  CublasLt& lt = *CublasLt::of(*stream.gpu, why);
  const Products products = products_of(lt, a, s);
  const int64_t rank = s.adapters * s.rank;
  const ArenaScope scope(*stream.arena);
  const Tensor low = stream.arena->f32({s.m, rank}), pairs = stream.arena->tensor(a.x.dtype, {s.m, 2 * rank});
  const Tensor wide = stream.arena->tensor(a.x.dtype, {s.n, 2 * rank});
  void* workspace = stream.arena->bytes(cuda::kMatmulWorkspaceBytes);
  if (stream.measuring()) return;
  lt.run(*products.down, {.x = a.x.data, .w = a.a.data, .y = low.data, .workspace = workspace});
  lora_split_cuda(low, a.scales, s.rank, pairs, stream);
  lora_gather_cuda(a.b, wide, stream);
  lt.run(*products.up, {.x = pairs.data,
                        .w = wide.data,
                        .c = a.accumulate ? a.y.data : nullptr,
                        .y = a.y.data,
                        .workspace = workspace});
}

}  // namespace tachy::ops
