#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<ChannelNormBackwardArgs>> channel_norm_backward_table() {
  static constexpr Impl<ChannelNormBackwardArgs> table[] = {gpu_impl<channel_norm_backward_cuda>("cuda"),
                                                            {"ref", nullptr, channel_norm_backward_ref}};
  return table;
}

void channel_norm_backward(const ChannelNormBackwardArgs& a, Stream& stream) {
  const char* op = "channel_norm_backward";
  const auto [dtype, param] = gradient_dtypes(op, "x", a.x, stream);
  expect_real(op, "x", a.x, {-1, -1}, dtype);
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  expect_real(op, "gamma", a.gamma, {c}, param);
  expect_real(op, "dy", a.dy, {p, c}, dtype);
  expect_real(op, "dx", a.dx, {p, c}, dtype);
  if (a.dgamma.defined()) expect_real(op, "dgamma", a.dgamma, {c}, param);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "dy", a.dy);
  expect_contiguous(op, "dx", a.dx);
  pick<ChannelNormBackwardArgs>(op, channel_norm_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
