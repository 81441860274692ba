// RMSNorm over the last dim, forward and backward.
// rms_norm: y = x / sqrt(mean(x²) + eps) · weight; with round_twice x / sqrt(…) is rounded to x's dtype
// before it is multiplied, as in diffusers' and transformers' modules, which compute the two in separate
// kernels.
// rms_modulate: the same, rounded once, and then · (1 + scale) + shift.
#include "bind/convert.h"
#include "bind/modulation.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::python {
namespace {

struct Forward {
  const Tensor &x, &weight;
  float eps;
  bool round_twice;
  explicit Forward(Inputs in)
      : x(in[0].tensor),
        weight(in[1].tensor),
        eps(static_cast<float>(in[2].number)),
        round_twice(in[3].integer) {}
};

Results results(Inputs in) {
  const Forward a(in);
  expect_value("rms_norm", "x", a.x);
  expect_vector("rms_norm", "weight", a.weight, a.x.dim(-1), a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape())};
}

void norm(const ops::RmsNormArgs& args, Stream& stream) {
  args.x.dtype == DType::f64 ? ops::rmsnorm_ref(args, stream) : ops::rmsnorm(args, stream);
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Forward a(in);
  const bool twice = a.round_twice && a.weight.defined() && dtype_size(a.x.dtype) == 2;
  // On a CPU the multiplication is a separate pass, over rows that are still in cache.
  const bool apart = twice && !context.on_gpu();
  const Tensor weight = Affine(a.weight, {}, a.x, out[0], context).weight;
  RowPass pass(context, a.x.dtype);
  pass.read(a.x);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t) {
    norm({.x = t[0],
          .weight = apart ? Tensor() : weight,
          .eps = a.eps,
          .round_twice = twice && !apart,
          .y = t[1]},
         context.stream());
    if (apart) round_and_weigh(t[1], a.x.dtype, weight, context);
  });
}

struct Backward {
  const Tensor &dy, &x, &weight;
  float eps;
  Tensor trained;
  explicit Backward(Inputs in)
      : dy(in[0].tensor),
        x(in[1].tensor),
        weight(in[2].tensor),
        eps(static_cast<float>(in[3].number)),
        trained(wanted(weight, in[4].integer)) {}
};

Results backward_results(Inputs in) {
  const char* op = "rms_norm_backward";
  const Backward a(in);
  expect_value(op, "x", a.x);
  expect_beside(op, "dy", a.dy, "x", a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape()), gradient_result(a.trained)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Backward a(in);
  GradientPass pass(context, a.x.dtype);
  ops::RmsNormBackwardArgs args{.x = pass.rows(a.x),
                                .weight = parameter(a.weight, a.x.dtype, context),
                                .dy = pass.rows(a.dy),
                                .eps = a.eps,
                                .dx = pass.result_rows(out[0]),
                                .dweight = pass.parameter_result(a.trained, out[1])};
  context.compute([&](Stream& stream) { ops::rmsnorm_backward(args, stream); });
  pass.finish();
}

struct Modulated {
  const Tensor &x, &scale, &shift, &weight;
  float eps;
  explicit Modulated(Inputs in)
      : x(in[0].tensor),
        scale(in[1].tensor),
        shift(in[2].tensor),
        weight(in[3].tensor),
        eps(static_cast<float>(in[4].number)) {}
};

Results modulated_results(Inputs in) {
  const char* op = "rms_modulate";
  const Modulated a(in);
  expect_value(op, "x", a.x);
  expect_scale_and_shift(op, a.scale, a.shift, a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape())};
}

void run_modulated(Inputs in, std::span<const Tensor> out, Context& context) {
  const Modulated a(in);
  ops::RmsNormArgs args{.weight = parameter(a.weight, a.x.dtype, context),
                        .scale = modulation_table(a.scale, a.x, context),
                        .shift = modulation_table(a.shift, a.x, context),
                        .eps = a.eps};
  run_modulated_rows(args, a.x, a.scale, out[0], context, norm);
}

struct ModulatedBackward {
  const Tensor &dy, &x, &scale, &weight;
  float eps;
  Tensor trained_scale, trained_weight;
  explicit ModulatedBackward(Inputs in)
      : dy(in[0].tensor),
        x(in[1].tensor),
        scale(in[2].tensor),
        weight(in[3].tensor),
        eps(static_cast<float>(in[4].number)),
        trained_scale(wanted(scale, in[5].integer)),
        trained_weight(wanted(weight, in[5].integer)) {}
};

// dshift has the same form as dscale.
Results modulated_backward_results(Inputs in) {
  const char* op = "rms_modulate_backward";
  const ModulatedBackward a(in);
  expect_value(op, "x", a.x);
  expect_beside(op, "dy", a.dy, "x", a.x);
  expect_modulation(op, "scale", a.scale, a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape()), gradient_result(a.trained_scale),
          gradient_result(a.trained_scale), gradient_result(a.trained_weight)};
}

void run_modulated_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const ModulatedBackward a(in);
  GradientPass pass(context, a.x.dtype);
  const ops::RmsNormBackwardArgs args{.x = pass.rows(a.x),
                                      .weight = parameter(a.weight, a.x.dtype, context),
                                      .scale = modulation_table(a.scale, a.x, context),
                                      .row = modulation_rows(a.scale, a.x, context),
                                      .dy = pass.rows(a.dy),
                                      .eps = a.eps,
                                      .dx = pass.result_rows(out[0]),
                                      .dweight = pass.parameter_result(a.trained_weight, out[3]),
                                      .dscale = modulation_result(pass, a.trained_scale, a.x, out[1]),
                                      .dshift = modulation_result(pass, a.trained_scale, a.x, out[2])};
  context.compute([&](Stream& stream) { ops::rmsnorm_backward(args, stream); });
  pass.finish();
}

}  // namespace

const Op kRmsModulate{"rms_modulate",
                      "(Tensor x, Tensor scale, Tensor shift, Tensor? weight, float eps) -> Tensor",
                      modulated_results, run_modulated, true};
const Op kRmsModulateBackward{"rms_modulate_backward",
                              "(Tensor dy, Tensor x, Tensor scale, Tensor? weight, float eps, "
                              "bool parameters) -> (Tensor, Tensor, Tensor, Tensor)",
                              modulated_backward_results, run_modulated_backward};
const Op kRmsNorm{"rms_norm", "(Tensor x, Tensor? weight, float eps, bool round_twice) -> Tensor", results,
                  run, true};
const Op kRmsNormBackward{
    "rms_norm_backward",
    "(Tensor dy, Tensor x, Tensor? weight, float eps, bool parameters) -> (Tensor, Tensor)", backward_results,
    run_backward};

}  // namespace tachy::python
