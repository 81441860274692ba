#include "ops/count_work.h"
#include "ops/linear_attention/linear_attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<LinearAttentionArgs>> linear_attention_table() {
  static constexpr Impl<LinearAttentionArgs> table[] = {
      gpu_impl<linear_attention_cuda, linear_attention_why_not_cuda>("cuda"),
      gpu_impl<linear_attention_plain_cuda>("cuda_plain"),
      {"ref", nullptr, linear_attention_ref}};
  return table;
}

void linear_attention(const LinearAttentionArgs& a, Stream& stream) {
  const char* op = "linear_attention";
  expect_float(op, "q", a.q, {-1, -1, -1, -1}, stream);
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3);
  expect_float(op, "k", a.k, {b, -1, h, d}, stream);
  expect_float(op, "v", a.v, {b, a.k.dim(1), h, d}, stream);
  expect_float(op, "out", a.out, {b, a.q.dim(1), h, d}, stream);
  require(a.q.dim(1) >= 1 && a.k.dim(1) >= 1, "{}: expected at least one token, got {} and {}", op,
          a.q.dim(1), a.k.dim(1));
  for (const Tensor* t : {&a.k, &a.v, &a.out}) expect_same_dtype(op, "k, v and out", *t, a.q);
  const double tokens = static_cast<double>(a.q.dim(1) + a.k.dim(1));
  if (count_work({.op = op,
                  .kind = WorkKind::attention,
                  .numbers = a.q.dtype,
                  .flops = 2 * tokens * static_cast<double>(b * h * d * d),
                  .bytes = bytes_of({a.q, a.k, a.v, a.out})},
                 stream))
    return;
  pick<LinearAttentionArgs>(op, linear_attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
