#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {

std::span<const Impl<ReparameterizeBackwardArgs>> reparameterize_backward_table() {
  static constexpr Impl<ReparameterizeBackwardArgs> table[] = {gpu_impl<reparameterize_backward_cuda>("cuda"),
                                                               {"ref", nullptr, reparameterize_backward_ref}};
  return table;
}

void reparameterize_backward(const ReparameterizeBackwardArgs& a, Stream& stream) {
  const char* op = "reparameterize_backward";
  const auto [dtype, param] = gradient_dtypes(op, "logvar", a.logvar, stream);
  expect_real(op, "logvar", a.logvar, {-1, -1}, dtype);
  const int64_t m = a.logvar.dim(0), p = a.logvar.dim(1);
  expect_real(op, "noise", a.noise, {m, p}, dtype);
  if (a.factor.defined()) expect_real(op, "factor", a.factor, {m}, param);
  expect_real(op, "dz", a.dz, {m, p}, dtype);
  expect_real(op, "dmean", a.dmean, {m, p}, dtype);
  expect_real(op, "dlogvar", a.dlogvar, {m, p}, dtype);
  const auto& impl = pick<ReparameterizeBackwardArgs>(op, reparameterize_backward_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
