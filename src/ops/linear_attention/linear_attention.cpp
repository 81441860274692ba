#include "ops/count_work.h"
#include "ops/linear_attention/linear_attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<LinearAttentionArgs>> linear_attention_table() {
  static constexpr Impl<LinearAttentionArgs> table[] = {{"ref", nullptr, linear_attention_ref}};
  return table;
}

void linear_attention(const LinearAttentionArgs& a, Stream& stream) {
  const char* op = "linear_attention";
  check(!stream.gpu, ErrorCode::unsupported, "{}: it needs `device` cpu", op);
  expect_real(op, "q", a.q, {-1, -1, -1, -1}, DType::f32);
  const int64_t b = a.q.dim(0), h = a.q.dim(2), d = a.q.dim(3);
  expect_real(op, "k", a.k, {b, -1, h, d}, DType::f32);
  expect_real(op, "v", a.v, {b, a.k.dim(1), h, d}, DType::f32);
  expect_real(op, "out", a.out, {b, a.q.dim(1), h, d}, DType::f32);
  const double tokens = static_cast<double>(a.q.dim(1) + a.k.dim(1));
  if (count_work({.op = op,
                  .kind = WorkKind::attention,
                  .numbers = DType::f32,
                  .flops = 2 * tokens * static_cast<double>(b * h * d * d),
                  .bytes = bytes_of({a.q, a.k, a.v, a.out})},
                 stream))
    return;
  pick<LinearAttentionArgs>(op, linear_attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
