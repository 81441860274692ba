#include "ops/count_work.h"
#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void gated_residual_cuda(const GatedResidualArgs& args, Stream& stream);  // gated_residual_sm80.cu

std::span<const Impl<GatedResidualArgs>> gated_residual_table() {
  static constexpr Impl<GatedResidualArgs> table[] = {gpu_impl<gated_residual_cuda>("cuda"),
                                                      {"cpu", nullptr, gated_residual_cpu},
                                                      {"ref", nullptr, gated_residual_ref}};
  return table;
}

void gated_residual(const GatedResidualArgs& a, Stream& stream) {
  const char* op = "gated_residual";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  expect_float(op, "u", a.u, {m, c}, stream);
  if (a.gate.defined()) {
    expect_f32(op, "gate", a.gate, {-1, c});
    expect_rows(op, a.row, m, a.gate.dim(0), stream);
  }
  expect_float(op, "y", a.y, {m, c}, stream);
  if (count_pass(op, a.y.dtype, {a.x, a.u, a.y}, stream)) return;
  const auto& impl = pick<GatedResidualArgs>(op, gated_residual_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
