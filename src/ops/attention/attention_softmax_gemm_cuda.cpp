// Attention as two products with a softmax between them, for heads that are too wide for a flash kernel (the
// VAE's single head of 384 to 1024 channels) and for float32. It computes the scores of a band of query rows
// in float32 and their softmax in the activations' dtype, which it multiplies by v. The band is larger than
// the cache, because a product of few rows by 384 columns would leave most multiprocessors without work,
// which costs more than the memory traffic (bench/notes/attention_and_gemm.md).
#include <algorithm>

#include "cuda/gpu_family.h"
#include "cuda/vendor/cublaslt.h"
#include "ops/attention/attention_impl.h"

namespace tachy::ops {
namespace {

using cuda::CublasLt;
using cuda::MatmulShape;

struct Bands {
  int64_t rows, columns;  // rows are those of a band; columns is Lk rounded up to whole 16 bytes
  bool in_place;          // in float32 the weights overwrite the scores
  // The rows of a band where no queries are elsewhere, on other GPUs for instance. They decide the algorithms, so that a
  // query has the same bits wherever its band begins and ends.
  int64_t like;
};

Bands bands_of(const AttentionArgs& a, const Stream& stream) {
  const int64_t lq = a.q.dims[1], columns = (a.k.dims[1] + 7) / 8 * 8;
  const bool in_place = a.q.dtype == DType::f32;
  const int64_t each = columns * (in_place ? 4 : 4 + dtype_size(a.q.dtype));
  const int64_t bytes = cuda::family_of(stream.gpu->info()).score_bytes;
  const int64_t most = std::max<int64_t>(128, bytes / each / 128 * 128);
  return {std::min(lq, most), columns, in_place, std::min(most, std::max(lq, a.k.dims[1]))};
}

int64_t stride_of(const Tensor& t) { return t.dims[1] > 1 ? t.strides[1] : std::max<int64_t>(1, t.dims[3]); }

MatmulShape scores_shape(const AttentionArgs& a, const Bands& bands, int64_t rows) {
  return {.m = rows,
          .n = a.k.dims[1],
          .k = a.q.dims[3],
          .x_row = stride_of(a.q),
          .w_row = stride_of(a.k),
          .y_row = bands.columns,
          .type = a.q.dtype,
          .out = DType::f32,
          .alignment = cuda::alignment_of({&a.q, &a.k}),
          .like = bands.like};
}
MatmulShape out_shape(const AttentionArgs& a, const Bands& bands, int64_t rows) {
  return {.m = rows,
          .n = a.q.dims[3],
          .k = a.k.dims[1],
          .x_row = bands.columns,
          .w_row = stride_of(a.v),
          .y_row = stride_of(a.out),
          .c_row = stride_of(a.out),
          .type = a.q.dtype,
          .out = a.q.dtype,
          .w_is_nk = false,
          .c = a.accumulate,
          .alignment = cuda::alignment_of({&a.v, &a.out}),
          .like = bands.like};
}

char* at(const Tensor& t, int64_t b, int64_t row, int64_t head) {
  return static_cast<char*>(t.data) +
         (b * t.strides[0] + row * t.strides[1] + head * t.strides[2]) * dtype_size(t.dtype);
}

}  // namespace

std::optional<Refusal> attention_why_not_softmax_gemm(const AttentionArgs& a, const Stream& stream) {
  if (auto no = why_not_whole(a)) return no;
  if (a.window != 0) return Refusal::arguments("a window");
  if (a.causal_block != 1) return Refusal::arguments("a causal mask of whole blocks");
  std::string why;
  CublasLt* lt = CublasLt::of(*stream.gpu, why);
  if (!lt) return Refusal::library(why);
  const Bands bands = bands_of(a, stream);
  const int64_t lq = a.q.dims[1], rest = lq % bands.rows;
  for (const int64_t rows : {bands.rows, rest}) {
    if (rows == 0) continue;
    for (const MatmulShape& shape : {scores_shape(a, bands, rows), out_shape(a, bands, rows)})
      if (const auto& plan = lt->plan(shape); !plan.why.empty()) return Refusal::library(plan.why);
  }
  return std::nullopt;
}

void attention_softmax_gemm(const AttentionArgs& a, Stream& stream) {
  std::string why;
  CublasLt& lt = *CublasLt::of(*stream.gpu, why);
  const Bands bands = bands_of(a, stream);
  const int64_t lq = a.q.dims[1];
  ArenaScope scope(*stream.arena);
  const Tensor scores = stream.arena->f32({bands.rows, bands.columns});
  const Tensor weights =
      bands.in_place ? scores : stream.arena->tensor(a.q.dtype, {bands.rows, bands.columns});
  void* workspace = stream.arena->bytes(cuda::kMatmulWorkspaceBytes);
  if (stream.measuring()) return;
  for (int64_t b = 0; b < a.q.dims[0]; ++b)
    for (int64_t h = 0; h < a.q.dims[2]; ++h)
      for (int64_t first = 0; first < lq; first += bands.rows) {
        const int64_t rows = std::min(bands.rows, lq - first);
        lt.run(lt.plan(scores_shape(a, bands, rows)),
               {.x = at(a.q, b, first, h), .w = at(a.k, b, 0, h), .y = scores.data, .workspace = workspace},
               a.scale);
        attention_softmax_cuda(a, {b, h, first, rows}, scores, weights, stream);
        char* out = at(a.out, b, first, h);
        lt.run(lt.plan(out_shape(a, bands, rows)), {.x = weights.data,
                                                    .w = at(a.v, b, 0, h),
                                                    .c = a.accumulate ? out : nullptr,
                                                    .y = out,
                                                    .workspace = workspace});
      }
}

}  // namespace tachy::ops
