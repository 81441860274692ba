#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void group_norm_cuda(const GroupNormArgs& args, Stream& stream);           // group_norm_sm80.cu
void group_norm_cuda_resident(const GroupNormArgs& args, Stream& stream);  // group_norm_resident_sm80.cu
std::optional<Refusal> group_norm_why_not_resident(const GroupNormArgs& args, const Stream& stream);

std::span<const Impl<GroupNormArgs>> group_norm_table() {
  static constexpr Impl<GroupNormArgs> table[] = {
      gpu_impl<group_norm_cuda_resident, group_norm_why_not_resident>("cuda_resident"),
      gpu_impl<group_norm_cuda>("cuda"),
      {"cpu", nullptr, group_norm_cpu},
      {"ref", nullptr, group_norm_ref}};
  return table;
}

void group_norm(const GroupNormArgs& a, Stream& stream) {
  const char* op = "group_norm";
  expect_float(op, "x", a.x, {-1, -1, -1}, stream);
  const int64_t n = a.x.dim(0), p = a.x.dim(1), c = a.x.dim(2);
  require(a.groups >= 1 && c % a.groups == 0, "{}: expected groups that divide {} channels, got {}", op, c,
          a.groups);
  if (a.weight.defined()) expect_f32(op, "weight", a.weight, {c});
  if (a.bias.defined()) expect_f32(op, "bias", a.bias, {c});
  expect_float(op, "y", a.y, {n, p, c}, stream);
  expect_same_dtype(op, "y", a.y, a.x);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "y", a.y);
  pick<GroupNormArgs>(op, group_norm_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
