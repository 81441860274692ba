#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<LoraBackwardArgs>> lora_backward_table() {
  static constexpr Impl<LoraBackwardArgs> table[] = {
      gpu_impl<lora_backward_sm80, lora_backward_why_not_sm80>("sm80"),
      gpu_impl<lora_backward_plain>("cuda_plain"),
      {"ref", nullptr, lora_backward_ref}};
  return table;
}

void lora_backward(const LoraBackwardArgs& a, Stream& stream) {
  const char* op = "lora_backward";
  const auto [dtype, scale] = gradient_dtypes(op, "x", a.x, stream);
  const LoraShape s = lora_shape(op, a.x, a.a, a.b);
  expect_real(op, "x", a.x, {s.m, s.k}, dtype);
  expect_real(op, "a", a.a, {s.adapters, s.rank, s.k}, dtype);
  expect_real(op, "b", a.b, {s.adapters, s.n, s.rank}, dtype);
  expect_real(op, "dy", a.dy, {s.m, s.n}, dtype);
  if (a.scales.defined()) expect_real(op, "scales", a.scales, {s.adapters}, scale);
  expect_adapters(op, a.index, s, stream);
  if (a.dx.defined()) expect_real(op, "dx", a.dx, {s.m, s.k}, dtype);
  if (a.da.defined()) expect_real(op, "da", a.da, {s.adapters, s.rank, s.k}, dtype);
  if (a.db.defined()) expect_real(op, "db", a.db, {s.adapters, s.n, s.rank}, dtype);
  if (a.dscales.defined()) expect_real(op, "dscales", a.dscales, {s.adapters}, scale);
  pick<LoraBackwardArgs>(op, lora_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
