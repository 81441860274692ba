#include "ops/activation/activation_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void activation_cuda(const ActivationArgs& args, Stream& stream);  // activation_sm80.cu

std::span<const Impl<ActivationArgs>> activation_table() {
  static constexpr Impl<ActivationArgs> table[] = {
      gpu_impl<activation_cuda>("cuda"), {"cpu", nullptr, activation_cpu}, {"ref", nullptr, activation_ref}};
  return table;
}

void activation(const ActivationArgs& a, Stream& stream) {
  const char* op = "activation";
  expect_float_dtype(op, "x", a.x, stream);
  expect_contiguous(op, "x", a.x);
  if (!same_shape(a.x, a.y))
    fail(ErrorCode::invalid_argument, "{}: expected y {}, got {}", op, shape_string(a.x), shape_string(a.y));
  expect_same_dtype(op, "y", a.y, a.x);
  expect_contiguous(op, "y", a.y);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<ActivationArgs>(op, activation_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
