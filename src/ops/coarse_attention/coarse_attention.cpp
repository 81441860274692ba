#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<CoarseAttentionArgs>> coarse_attention_table() {
  static constexpr Impl<CoarseAttentionArgs> table[] = {{"ref", nullptr, coarse_attention_ref}};
  return table;
}

void coarse_attention(const CoarseAttentionArgs& a, Stream& stream) {
  const char* op = "coarse_attention";
  check(!stream.gpu, ErrorCode::unsupported, "{}: it needs `device` cpu", op);
  expect_real(op, "q", a.q, {-1, -1, -1, -1}, DType::f32);
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3), lk = a.k.defined() ? a.k.dim(1) : 0;
  expect_real(op, "k", a.k, {b, -1, h, d}, DType::f32);
  require(a.q.dim(1) >= 1 && lk >= 1, "{}: expected at least one token, got {} and {}", op, a.q.dim(1), lk);
  for (const Tensor* ends : {&a.query_ends, &a.key_ends}) {
    if (!ends->defined()) continue;
    expect_real(op, "ends", *ends, {-1}, DType::i32), expect_contiguous(op, "ends", *ends);
    if (stream.measuring()) continue;
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
  require(a.v.defined() == a.out.defined(), "{}: expected v and out, or neither", op);
  if (a.out.defined()) {
    expect_real(op, "v", a.v, {b, lk, h, d}, DType::f32);
    expect_real(op, "out", a.out, {b, queries, h, d}, DType::f32);
    expect_contiguous(op, "out", a.out);
  }
  if (count_pass(op, a.q.dtype, {a.q, a.k, a.v, a.indices}, stream)) return;
  pick<CoarseAttentionArgs>(op, coarse_attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
