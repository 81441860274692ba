#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

std::span<const Impl<RopeBackwardArgs>> rope_backward_table() {
  static constexpr Impl<RopeBackwardArgs> table[] = {gpu_impl<rope_backward_cuda>("cuda"),
                                                     {"ref", nullptr, rope_backward_ref}};
  return table;
}

void rope_backward(const RopeBackwardArgs& a, Stream& stream) {
  const char* op = "rope_backward";
  const auto [dtype, param] = gradient_dtypes(op, "dy", a.dy, stream);
  expect_real(op, "dy", a.dy, {-1, -1, -1, -1}, dtype);
  const int64_t l = a.dy.dim(1), d = a.dy.dim(3);
  require(d % 2 == 0, "{}: expected an even head dim, got {}", op, d);
  expect_real(op, "cos", a.cos, {l, d / 2}, param);
  expect_real(op, "sin", a.sin, {l, d / 2}, param);
  expect_real(op, "dx", a.dx, {a.dy.dim(0), l, a.dy.dim(2), d}, dtype);
  const auto& impl = pick<RopeBackwardArgs>(op, rope_backward_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
