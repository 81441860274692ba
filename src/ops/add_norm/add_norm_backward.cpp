#include "ops/add_norm/add_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AddNormBackwardArgs>> add_norm_backward_table() {
  static constexpr Impl<AddNormBackwardArgs> table[] = {gpu_impl<add_norm_backward_cuda>("cuda"),
                                                        {"ref", nullptr, add_norm_backward_ref}};
  return table;
}

void add_norm_backward(const AddNormBackwardArgs& a, Stream& stream) {
  const char* op = "add_norm_backward";
  const auto [dtype, param] = gradient_dtypes(op, "sum", a.sum, stream);
  expect_real(op, "sum", a.sum, {-1, -1}, dtype);
  const int64_t m = a.sum.dim(0), c = a.sum.dim(1);
  expect_real(op, "dy", a.dy, {m, c}, dtype);
  if (a.dsum.defined()) expect_real(op, "dsum", a.dsum, {m, c}, dtype);
  expect_real(op, "dx", a.dx, {m, c}, dtype);
  if (a.weight.defined()) expect_real(op, "weight", a.weight, {c}, param);
  if (a.dweight.defined()) expect_real(op, "dweight", a.dweight, {c}, param);
  if (a.dbias.defined()) expect_real(op, "dbias", a.dbias, {c}, param);
  pick<AddNormBackwardArgs>(op, add_norm_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
