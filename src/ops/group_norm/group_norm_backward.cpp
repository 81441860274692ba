#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<GroupNormBackwardArgs>> group_norm_backward_table() {
  static constexpr Impl<GroupNormBackwardArgs> table[] = {gpu_impl<group_norm_backward_cuda>("cuda"),
                                                          {"ref", nullptr, group_norm_backward_ref}};
  return table;
}

void group_norm_backward(const GroupNormBackwardArgs& a, Stream& stream) {
  const char* op = "group_norm_backward";
  const auto [dtype, param] = gradient_dtypes(op, "x", a.x, stream);
  expect_real(op, "x", a.x, {-1, -1, -1}, dtype);
  const int64_t n = a.x.dim(0), p = a.x.dim(1), c = a.x.dim(2);
  require(a.groups >= 1 && c % a.groups == 0, "{}: expected groups that divide {} channels, got {}", op, c,
          a.groups);
  const std::pair<const char*, const Tensor*> vectors[] = {
      {"weight", &a.weight}, {"bias", &a.bias}, {"dweight", &a.dweight}, {"dbias", &a.dbias}};
  for (const auto& [name, t] : vectors)
    if (t->defined()) expect_real(op, name, *t, {c}, param);
  expect_real(op, "dy", a.dy, {n, p, c}, dtype);
  expect_real(op, "dx", a.dx, {n, p, c}, dtype);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "dy", a.dy);
  expect_contiguous(op, "dx", a.dx);
  pick<GroupNormBackwardArgs>(op, group_norm_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
