#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<LoraBackwardArgs>> lora_backward_table() {
  static constexpr Impl<LoraBackwardArgs> table[] = {{"ref", nullptr, lora_backward_ref}};
  return table;
}

void lora_backward(const LoraBackwardArgs& a, Stream& stream) {
  const char* op = "lora_backward";
  const DType dtype = gradient_dtypes(op, "x", a.x, stream).value;
  const LoraShape s = lora_shape(op, a.x, a.a, a.b);
  expect_real(op, "x", a.x, {s.m, s.k}, dtype);
  expect_real(op, "a", a.a, {s.adapters, s.rank, s.k}, dtype);
  expect_real(op, "b", a.b, {s.adapters, s.n, s.rank}, dtype);
  expect_real(op, "dy", a.dy, {s.m, s.n}, dtype);
  if (a.scales.defined()) expect_real(op, "scales", a.scales, {s.adapters}, dtype);
  expect_adapters(op, a.index, s, stream);
  if (a.dx.defined()) expect_real(op, "dx", a.dx, {s.m, s.k}, dtype);
  if (a.da.defined()) expect_real(op, "da", a.da, {s.adapters, s.rank, s.k}, dtype);
  if (a.db.defined()) expect_real(op, "db", a.db, {s.adapters, s.n, s.rank}, dtype);
  if (a.dscales.defined()) expect_real(op, "dscales", a.dscales, {s.adapters}, dtype);
  pick<LoraBackwardArgs>(op, lora_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
