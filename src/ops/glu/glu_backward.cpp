#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<GluBackwardArgs>> glu_backward_table() {
  static constexpr Impl<GluBackwardArgs> table[] = {gpu_impl<glu_backward_cuda>("cuda"),
                                                    {"ref", nullptr, glu_backward_ref}};
  return table;
}

void glu_backward(const GluBackwardArgs& a, Stream& stream) {
  const char* op = "glu_backward";
  const DType dtype = gradient_dtypes(op, "a", a.a, stream).value;
  expect_real(op, "a", a.a, {-1, -1}, dtype);
  const int64_t m = a.a.dim(0), c = a.a.dim(1);
  expect_real(op, "b", a.b, {m, c}, dtype);
  expect_real(op, "dy", a.dy, {m, c}, dtype);
  expect_real(op, "da", a.da, {m, c}, dtype);
  expect_real(op, "db", a.db, {m, c}, dtype);
  const auto& impl = pick<GluBackwardArgs>(op, glu_backward_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
