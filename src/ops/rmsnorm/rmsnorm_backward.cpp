#include "ops/modulated_norm_backward_def.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {

std::span<const Impl<RmsNormBackwardArgs>> rmsnorm_backward_table() {
  static constexpr Impl<RmsNormBackwardArgs> table[] = {gpu_impl<rmsnorm_backward_cuda>("cuda"),
                                                        {"ref", nullptr, rmsnorm_backward_ref}};
  return table;
}

void rmsnorm_backward(const RmsNormBackwardArgs& a, Stream& stream) {
  const char* op = "rmsnorm_backward";
  const auto [dtype, param] = gradient_dtypes(op, "x", a.x, stream);
  expect_real(op, "x", a.x, {-1, -1}, dtype);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  if (a.weight.defined()) expect_real(op, "weight", a.weight, {c}, param);
  expect_real(op, "dy", a.dy, {m, c}, dtype);
  expect_real(op, "dx", a.dx, {m, c}, dtype);
  if (a.dweight.defined()) expect_real(op, "dweight", a.dweight, {c}, param);
  expect_modulation_gradients(op, a, param, stream);
  pick<RmsNormBackwardArgs>(op, rmsnorm_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
