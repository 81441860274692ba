#include "ops/count_work.h"
#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

// Defined in layernorm_modulate_sm80.cu.
void layernorm_modulate_cuda(const LayerNormModulateArgs& args, Stream& stream);

std::span<const Impl<LayerNormModulateArgs>> layernorm_modulate_table() {
  static constexpr Impl<LayerNormModulateArgs> table[] = {gpu_impl<layernorm_modulate_cuda>("cuda"),
                                                          {"cpu", nullptr, layernorm_modulate_cpu},
                                                          {"ref", nullptr, layernorm_modulate_ref}};
  return table;
}

void layernorm_modulate(const LayerNormModulateArgs& a, Stream& stream) {
  const char* op = "layernorm_modulate";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  require(a.scale.defined() == a.shift.defined(), "{}: expected scale and shift together, got only one", op);
  if (a.scale.defined()) {
    expect_f32(op, "scale", a.scale, {-1, c});
    expect_f32(op, "shift", a.shift, {a.scale.dim(0), c});
    expect_rows(op, a.row, m, a.scale.dim(0), stream);
  }
  expect_float(op, "y", a.y, {m, c}, stream);
  if (a.weight.defined()) expect_parameter(op, "weight", a.weight, c, a.x, a.y, stream);
  if (a.bias.defined()) expect_parameter(op, "bias", a.bias, c, a.x, a.y, stream);
  if (a.weight.defined() && a.bias.defined()) expect_same_dtype(op, "bias", a.bias, a.weight);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<LayerNormModulateArgs>(op, layernorm_modulate_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
