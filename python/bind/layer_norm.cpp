// LayerNorm over the last dim with its affine map, a modulation or both, forward and backward:
//   n = (x − mean) / sqrt(var + eps) [· weight] [+ bias];   y = n [· (1 + scale) + shift]
// All of it is done in one pass and rounded once.
#include "bind/convert.h"
#include "bind/modulation.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/layernorm_modulate/layernorm_modulate_impl.h"

namespace tachy::python {
namespace {

struct Forward {
  const Tensor &x, &weight, &bias, &scale, &shift;
  float eps;
  explicit Forward(Inputs in)
      : x(in[0].tensor),
        weight(in[1].tensor),
        bias(in[2].tensor),
        scale(in[3].tensor),
        shift(in[4].tensor),
        eps(static_cast<float>(in[5].number)) {}
};

Results results(Inputs in) {
  const char* op = "layer_norm";
  const Forward a(in);
  expect_value(op, "x", a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  expect_vector(op, "bias", a.bias, a.x.dim(-1), a.x);
  expect_scale_and_shift(op, a.scale, a.shift, a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape())};
}

void norm(const ops::LayerNormModulateArgs& args, Stream& stream) {
  args.x.dtype == DType::f64 ? ops::layernorm_modulate_ref(args, stream)
                             : ops::layernorm_modulate(args, stream);
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Forward a(in);
  const Affine affine(a.weight, a.bias, a.x, out[0], context);
  ops::LayerNormModulateArgs args{.weight = affine.weight,
                                  .bias = affine.bias,
                                  .scale = modulation_table(a.scale, a.x, context),
                                  .shift = modulation_table(a.shift, a.x, context),
                                  .eps = a.eps};
  run_modulated_rows(args, a.x, a.scale, out[0], context, norm);
}

struct Backward {
  const Tensor &dy, &x, &weight, &bias, &scale;
  float eps;
  Tensor trained_weight, trained_bias, trained_scale;
  explicit Backward(Inputs in)
      : dy(in[0].tensor),
        x(in[1].tensor),
        weight(in[2].tensor),
        bias(in[3].tensor),
        scale(in[4].tensor),
        eps(static_cast<float>(in[5].number)),
        trained_weight(wanted(weight, in[6].integer)),
        trained_bias(wanted(bias, in[6].integer)),
        trained_scale(wanted(scale, in[6].integer)) {}
};

// dshift has the same form as dscale.
Results backward_results(Inputs in) {
  const char* op = "layer_norm_backward";
  const Backward a(in);
  expect_value(op, "x", a.x);
  expect_beside(op, "dy", a.dy, "x", a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  expect_vector(op, "bias", a.bias, a.x.dim(-1), a.x);
  expect_modulation(op, "scale", a.scale, a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape()), gradient_result(a.trained_weight),
          gradient_result(a.trained_bias), gradient_result(a.trained_scale),
          gradient_result(a.trained_scale)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Backward a(in);
  GradientPass pass(context, a.x.dtype);
  const ops::LayerNormModulateBackwardArgs args{
      .x = pass.rows(a.x),
      .weight = parameter(a.weight, a.x.dtype, context),
      .bias = parameter(a.bias, a.x.dtype, context),
      .scale = modulation_table(a.scale, a.x, context),
      .row = modulation_rows(a.scale, a.x, context),
      .dy = pass.rows(a.dy),
      .eps = a.eps,
      .dx = pass.result_rows(out[0]),
      .dweight = pass.parameter_result(a.trained_weight, out[1]),
      .dbias = pass.parameter_result(a.trained_bias, out[2]),
      .dscale = modulation_result(pass, a.trained_scale, a.x, out[3]),
      .dshift = modulation_result(pass, a.trained_scale, a.x, out[4])};
  context.compute([&](Stream& stream) { ops::layernorm_modulate_backward(args, stream); });
  pass.finish();
}

}  // namespace

const Op kLayerNorm{
    "layer_norm",
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor? scale, Tensor? shift, float eps) -> Tensor", results,
    run, true};
const Op kLayerNormBackward{
    "layer_norm_backward",
    "(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, Tensor? scale, float eps, bool parameters) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    backward_results, run_backward};

}  // namespace tachy::python
