#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<GatedResidualBackwardArgs>> gated_residual_backward_table() {
  static constexpr Impl<GatedResidualBackwardArgs> table[] = {gpu_impl<gated_residual_backward_cuda>("cuda"),
                                                              {"ref", nullptr, gated_residual_backward_ref}};
  return table;
}

void gated_residual_backward(const GatedResidualBackwardArgs& a, Stream& stream) {
  const char* op = "gated_residual_backward";
  const auto [dtype, param] = gradient_dtypes(op, "dy", a.dy, stream);
  expect_real(op, "dy", a.dy, {-1, -1}, dtype);
  const int64_t m = a.dy.dim(0), c = a.dy.dim(1);
  if (a.dx.defined()) expect_real(op, "dx", a.dx, {m, c}, dtype);
  // On a GPU the branch may be 16-bit beside a float32 residual stream, as in the forward pass.
  const auto branch = [&](const char* name, const Tensor& t) {
    if (!t.defined()) return;
    if (stream.gpu)
      expect_float(op, name, t, {m, c}, stream);
    else
      expect_real(op, name, t, {m, c}, dtype);
  };
  branch("u", a.u), branch("du", a.du);
  if (a.u.defined() && a.du.defined()) expect_same_dtype(op, "du", a.du, a.u);
  require(!a.dgate.defined() || (a.gate.defined() && a.u.defined()), "{}: dgate needs gate and u, got {}{}",
          op, a.gate.defined() ? "no u" : "no gate", a.gate.defined() || a.u.defined() ? "" : " and no u");
  if (a.gate.defined()) {
    expect_real(op, "gate", a.gate, {-1, c}, param);
    expect_rows(op, a.row, m, a.gate.dim(0), stream);
    if (a.dgate.defined()) expect_real(op, "dgate", a.dgate, {a.gate.dim(0), c}, param);
  }
  pick<GatedResidualBackwardArgs>(op, gated_residual_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
