#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/modulated_norm_backward_def.h"

namespace tachy::ops {

std::span<const Impl<LayerNormModulateBackwardArgs>> layernorm_modulate_backward_table() {
  static constexpr Impl<LayerNormModulateBackwardArgs> table[] = {
      gpu_impl<layernorm_modulate_backward_cuda>("cuda"), {"ref", nullptr, layernorm_modulate_backward_ref}};
  return table;
}

void layernorm_modulate_backward(const LayerNormModulateBackwardArgs& a, Stream& stream) {
  const char* op = "layernorm_modulate_backward";
  const auto [dtype, param] = gradient_dtypes(op, "x", a.x, stream);
  expect_real(op, "x", a.x, {-1, -1}, dtype);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  expect_real(op, "dy", a.dy, {m, c}, dtype);
  expect_real(op, "dx", a.dx, {m, c}, dtype);
  const std::pair<const char*, const Tensor*> vectors[] = {
      {"weight", &a.weight}, {"bias", &a.bias}, {"dweight", &a.dweight}, {"dbias", &a.dbias}};
  for (const auto& [name, t] : vectors)
    if (t->defined()) expect_real(op, name, *t, {c}, param);
  expect_modulation_gradients(op, a, param, stream);
  pick<LayerNormModulateBackwardArgs>(op, layernorm_modulate_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
