#include "ops/op_helpers.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {

std::span<const Impl<QkNormRopeBackwardArgs>> qk_norm_rope_backward_table() {
  static constexpr Impl<QkNormRopeBackwardArgs> table[] = {gpu_impl<qk_norm_rope_backward_cuda>("cuda"),
                                                           {"ref", nullptr, qk_norm_rope_backward_ref}};
  return table;
}

void qk_norm_rope_backward(const QkNormRopeBackwardArgs& a, Stream& stream) {
  const char* op = "qk_norm_rope_backward";
  const auto [dtype, param] = gradient_dtypes(op, "x", a.x, stream);
  expect_real(op, "x", a.x, {-1, -1, -1}, dtype);
  const int64_t b = a.x.dim(0), l = a.x.dim(1), c = a.x.dim(2);
  require(a.heads >= 1 && c % a.heads == 0 && c / a.heads % 2 == 0,
          "{}: expected {} channels in heads of an even size, got {} heads", op, c, a.heads);
  if (a.weight.defined()) expect_real(op, "weight", a.weight, {c}, param);
  require(a.cos.defined() == a.sin.defined(), "{}: expected cos and sin together, got only one", op);
  if (a.cos.defined()) {
    expect_real(op, "cos", a.cos, {l, c / a.heads / 2}, param);
    expect_real(op, "sin", a.sin, {l, c / a.heads / 2}, param);
  }
  expect_real(op, "dy", a.dy, {b, l, c}, dtype);
  expect_real(op, "dx", a.dx, {b, l, c}, dtype);
  if (a.dweight.defined()) expect_real(op, "dweight", a.dweight, {c}, param);
  pick<QkNormRopeBackwardArgs>(op, qk_norm_rope_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
