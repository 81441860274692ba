#include "ops/count_work.h"
#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void group_norm_cuda(const GroupNormArgs& args, Stream& stream);         // group_norm_sm80.cu
void group_norm_cuda_planes(const GroupNormArgs& args, Stream& stream);  // group_norm_planes_sm80.cu
std::optional<Refusal> group_norm_why_not_planes(const GroupNormArgs& args, const Stream& stream);
void group_norm_cuda_resident(const GroupNormArgs& args, Stream& stream);  // group_norm_resident_sm80.cu
std::optional<Refusal> group_norm_why_not_resident(const GroupNormArgs& args, const Stream& stream);

namespace {

std::optional<Refusal> why_not_last(const GroupNormArgs& a, const Stream&) {
  if (a.channels_first) return Refusal::arguments("channels first");
  return std::nullopt;
}
std::optional<Refusal> why_not_last_resident(const GroupNormArgs& a, const Stream& stream) {
  if (auto why = why_not_last(a, stream)) return why;
  return group_norm_why_not_resident(a, stream);
}

}  // namespace

std::span<const Impl<GroupNormArgs>> group_norm_table() {
  static constexpr Impl<GroupNormArgs> table[] = {
      gpu_impl<group_norm_cuda_resident, why_not_last_resident>("cuda_resident"),
      gpu_impl<group_norm_cuda, why_not_last>("cuda"),
      gpu_impl<group_norm_cuda_planes, group_norm_why_not_planes>("cuda_planes"),
      {"cpu", why_not_last, group_norm_cpu},
      {"cpu_planes", group_norm_why_not_planes_cpu, group_norm_planes_cpu},
      {"ref", nullptr, group_norm_ref}};
  return table;
}

void group_norm(const GroupNormArgs& a, Stream& stream) {
  const char* op = "group_norm";
  expect_float(op, "x", a.x, {-1, -1, -1}, stream);
  const int64_t n = a.x.dim(0), c = a.x.dim(a.channels_first ? 1 : 2);
  require(a.groups >= 1 && c % a.groups == 0, "{}: expected groups that divide {} channels, got {}", op, c,
          a.groups);
  if (a.weight.defined()) expect_f32(op, "weight", a.weight, {c});
  if (a.bias.defined()) expect_f32(op, "bias", a.bias, {c});
  expect_float(op, "y", a.y, {n, a.x.dim(1), a.x.dim(2)}, stream);
  expect_same_dtype(op, "y", a.y, a.x);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "y", a.y);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  pick<GroupNormArgs>(op, group_norm_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
