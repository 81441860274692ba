#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {

std::span<const Impl<QkNormRopeArgs>> qk_norm_rope_table() {
  static constexpr Impl<QkNormRopeArgs> table[] = {gpu_impl<qk_norm_rope_cuda>("cuda"),
                                                   {"cpu", nullptr, qk_norm_rope_cpu},
                                                   {"ref", nullptr, qk_norm_rope_ref}};
  return table;
}

void qk_norm_rope(const QkNormRopeArgs& a, Stream& stream) {
  const char* op = "qk_norm_rope";
  expect_float(op, "x", a.x, {-1, -1, -1}, stream);
  const int64_t l = a.x.dim(1), c = a.x.dim(2);
  if (a.weight.defined()) expect_f32(op, "weight", a.weight, {c});
  require(a.cos.defined() == a.sin.defined(), "{}: expected cos and sin together, got only one", op);
  require(a.heads >= 1 && c % a.heads == 0, "{}: expected heads that divide {} channels, got {}", op, c,
          a.heads);
  require(!a.norm_heads || (!a.weight.defined() && !a.weight2.defined()),
          "{}: a norm of each head has no weight", op);
  if (a.cos.defined()) {
    const int64_t d = c / a.heads;
    require(d % 2 == 0, "{}: expected an even head dim, got {}", op, d);
    expect_f32(op, "cos", a.cos, {l, d / 2});
    expect_f32(op, "sin", a.sin, {l, d / 2});
  }
  expect_float(op, "y", a.y, {a.x.dim(0), l, c}, stream);
  expect_same_dtype(op, "y", a.y, a.x);
  require(a.x2.defined() == a.y2.defined(), "{}: expected x2 and y2 together, got only one", op);
  require(a.x2.defined() || !a.weight2.defined(), "{}: weight2 needs x2", op);
  if (a.x2.defined()) {
    expect_float(op, "x2", a.x2, {a.x.dim(0), l, c}, stream);
    expect_same_dtype(op, "x2", a.x2, a.x);
    if (a.weight2.defined()) expect_f32(op, "weight2", a.weight2, {c});
    expect_float(op, "y2", a.y2, {a.x.dim(0), l, c}, stream);
    expect_same_dtype(op, "y2", a.y2, a.x);
  }
  if (count_pass(op, a.y.dtype, {a.x, a.y, a.x2, a.y2}, stream)) return;
  const auto& impl = pick<QkNormRopeArgs>(op, qk_norm_rope_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
