#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<CoarseAttentionArgs>> coarse_attention_table() {
  static constexpr Impl<CoarseAttentionArgs> table[] = {
      gpu_impl<coarse_attention_cuda, coarse_attention_why_not_cuda>("cuda"),
      {"ref", nullptr, coarse_attention_ref}};
  return table;
}

void coarse_attention(const CoarseAttentionArgs& a, Stream& stream) {
  const char* op = "coarse_attention";
  expect_float(op, "q", a.q, {-1, -1, -1, -1}, stream);
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3), lk = a.k.defined() ? a.k.dim(1) : 0;
  expect_float(op, "k", a.k, {b, -1, h, d}, stream);
  expect_same_dtype(op, "k", a.k, a.q);
  require(a.q.dim(1) >= 1 && lk >= 1, "{}: expected at least one token, got {} and {}", op, a.q.dim(1), lk);
  for (const Tensor* ends : {&a.query_ends, &a.key_ends}) {
    if (!ends->defined()) continue;
    expect_real(op, "ends", *ends, {-1}, DType::i32), expect_contiguous(op, "ends", *ends);
    expect_here(op, "ends", *ends, stream);
    if (stream.measuring() || stream.gpu) continue;
    const int64_t tokens = ends == &a.key_ends ? lk : a.q.dim(1);
    for (int64_t i = 0, before = 0; i < ends->dim(0); before = ends->as<int32_t>()[i++]) {
      const int64_t end = ends->as<int32_t>()[i];
      require(end > before && end <= tokens && (i + 1 < ends->dim(0) || end == tokens),
              "{}: expected ends that rise to {}, got {} after {}", op, tokens, end, before);
    }
  }
  const int64_t queries = coarse_blocks(a.query_ends, a.q.dim(1)), keys = coarse_blocks(a.key_ends, lk);
  require(a.keep >= 1 && a.keep <= keys, "{}: expected to keep 1 to {} blocks, got {}", op, keys, a.keep);
  expect_real(op, "indices", a.indices, {b, h, queries, a.keep}, DType::i32);
  expect_real(op, "counts", a.counts, {b, h, queries}, DType::i32);
  expect_contiguous(op, "indices", a.indices), expect_contiguous(op, "counts", a.counts);
  for (const Tensor* t : {&a.v, &a.out, &a.indices, &a.counts})
    if (t->defined()) expect_here(op, "v, out, indices and counts", *t, stream);
  require(a.v.defined() == a.out.defined(), "{}: expected v and out, or neither", op);
  if (a.out.defined()) {
    expect_real(op, "v", a.v, {b, lk, h, d}, a.q.dtype);
    expect_real(op, "out", a.out, {b, queries, h, d}, DType::f32);
    expect_contiguous(op, "out", a.out);
  }
  if (count_pass(op, a.q.dtype, {a.q, a.k, a.v, a.indices}, stream)) return;
  pick<CoarseAttentionArgs>(op, coarse_attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
