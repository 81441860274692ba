#include "ops/activation/activation_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<ActivationBackwardArgs>> activation_backward_table() {
  static constexpr Impl<ActivationBackwardArgs> table[] = {gpu_impl<activation_backward_cuda>("cuda"),
                                                           {"ref", nullptr, activation_backward_ref}};
  return table;
}

void activation_backward(const ActivationBackwardArgs& a, Stream& stream) {
  const char* op = "activation_backward";
  const DType dtype = gradient_dtypes(op, "x", a.x, stream).value;
  for (const auto& [name, t] : {std::pair("x", &a.x), std::pair("dy", &a.dy), std::pair("dx", &a.dx)}) {
    expect_dtype(op, name, *t, dtype);
    if (!same_shape(a.x, *t))
      fail(ErrorCode::invalid_argument, "{}: expected {} {}, got {}", op, name, shape_string(a.x),
           shape_string(*t));
    expect_contiguous(op, name, *t);
  }
  const auto& impl = pick<ActivationBackwardArgs>(op, activation_backward_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
