#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {

void rmsnorm_cuda(const RmsNormArgs& args, Stream& stream);  // rmsnorm_sm80.cu

std::span<const Impl<RmsNormArgs>> rmsnorm_table() {
  static constexpr Impl<RmsNormArgs> table[] = {
      gpu_impl<rmsnorm_cuda>("cuda"), {"cpu", nullptr, rmsnorm_cpu}, {"ref", nullptr, rmsnorm_ref}};
  return table;
}

void rmsnorm(const RmsNormArgs& a, Stream& stream) {
  const char* op = "rmsnorm";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  require(a.scale.defined() == a.shift.defined(), "{}: expected scale and shift together, got only one", op);
  if (a.scale.defined()) {
    expect_f32(op, "scale", a.scale, {-1, c});
    expect_f32(op, "shift", a.shift, {a.scale.dim(0), c});
    expect_rows(op, a.row, m, a.scale.dim(0), stream);
  }
  require(!a.round_twice || (a.weight.defined() && !a.scale.defined()),
          "{}: round_twice needs a weight and no modulation", op);
  expect_float(op, "y", a.y, {m, c}, stream);
  if (a.weight.defined()) expect_parameter(op, "weight", a.weight, c, a.x, a.y, stream);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<RmsNormArgs>(op, rmsnorm_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
