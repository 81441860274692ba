// The residual add and the norm after it in one pass, and the residual add by itself:
//   add_norm: h = x + [gate ·] u;  y = norm(h) [· weight] [+ bias] [· (1 + scale) + shift];  returns y and h
//   gated_residual: y = x + [gate ·] u
// h is rounded to x's dtype before it is normalised. x and h share a dtype, and so do u and y: a residual
// stream may be float32 beside 16-bit branches. The backward pass of add_norm is that of h = x + u and an
// affine norm; _gradients.py adds the gradients of the gate and the modulation.
#include "bind/convert.h"
#include "bind/modulation.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/add_norm/add_norm_impl.h"
#include "ops/gated_residual/gated_residual_backward.h"
#include "ops/gated_residual/gated_residual_impl.h"

namespace tachy::python {
namespace {

void expect_branch(const char* op, const Tensor& u, const Tensor& x) {
  expect_value(op, "x", x);
  expect_value(op, "u", u);
  require(same_shape(u, x), "{}: expected u {} as x, got {}", op, shown(x), shown(u));
  require((x.dtype == DType::f64) == (u.dtype == DType::f64), "{}: expected u {} beside {}, got {}", op,
          x.dtype == DType::f64 ? "f64" : "f32, f16 or bf16", dtype_name(x.dtype), dtype_name(u.dtype));
}

ops::NormKind norm_kind(const char* op, int64_t kind) {
  require(kind == 0 || kind == 1, "{}: expected kind 0 (RMSNorm) or 1 (LayerNorm), got {}", op, kind);
  return kind == 0 ? ops::NormKind::rms : ops::NormKind::layer;
}

struct Forward {
  const Tensor &x, &u, &gate, &weight, &bias, &scale, &shift;
  int64_t kind;
  float eps;
  bool round_twice;
  explicit Forward(Inputs in)
      : x(in[0].tensor),
        u(in[1].tensor),
        gate(in[2].tensor),
        weight(in[3].tensor),
        bias(in[4].tensor),
        scale(in[5].tensor),
        shift(in[6].tensor),
        kind(in[7].integer),
        eps(static_cast<float>(in[8].number)),
        round_twice(in[9].integer) {}
};

Results results(Inputs in) {
  const char* op = "add_norm";
  const Forward a(in);
  expect_branch(op, a.u, a.x);
  norm_kind(op, a.kind);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  expect_vector(op, "bias", a.bias, a.x.dim(-1), a.x);
  expect_modulation(op, "gate", a.gate, a.x);
  expect_scale_and_shift(op, a.scale, a.shift, a.x);
  if (a.gate.defined() && a.scale.defined()) expect_pair(op, "gate", a.gate, "scale", a.scale);
  require(!a.round_twice || (a.kind == 0 && a.weight.defined() && !a.bias.defined() && !a.scale.defined()),
          "{}: expected round_twice with norm \"rms\" and a weight alone", op);
  return {Result::contiguous(a.u.dtype, a.x.shape()), Result::contiguous(a.x.dtype, a.x.shape())};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Forward a(in);
  const Affine affine(a.weight, a.bias, a.x, a.u, context);
  ops::AddNormArgs args{.gate = modulation_table(a.gate, a.x, context),
                        .kind = norm_kind("add_norm", a.kind),
                        .weight = affine.weight,
                        .bias = affine.bias,
                        .scale = modulation_table(a.scale, a.x, context),
                        .shift = modulation_table(a.shift, a.x, context),
                        .eps = a.eps};
  const Tensor rows = modulation_rows(a.gate.defined() ? a.gate : a.scale, a.x, context);
  // On the CPU h stays float32 until it is rounded; the norm then reads it beside a branch of zeros.
  const bool twice = a.round_twice && dtype_size(a.u.dtype) == 2;
  args.round_twice = twice;
  const bool round = work_dtype(a.x.dtype, context) != a.x.dtype;
  Tensor zeros;
  if (round) {
    zeros = context.scratch(DType::f32, {1, a.x.dim(-1)});
    zero(zeros, context);
    zeros.strides[0] = 0;
  }
  RowPass pass(context, a.x.dtype);
  for (const Tensor* t : {&a.x, &a.u}) pass.read(*t);
  for (const Tensor& t : out) pass.write(t);
  pass.run([&](std::span<const Tensor> t, int64_t first) {
    Stream& stream = context.stream();
    args.x = t[0], args.u = t[1], args.y = t[2], args.sum = t[3];
    args.row = part_of(rows, first, t[0].dim(0));
    if (a.x.dtype == DType::f64) return ops::add_norm_ref(args, stream);
    if (!round && (!twice || context.on_gpu())) return ops::add_norm(args, stream);
    if (!round) {  // the residual stream is float32 beside a 16-bit branch
      ops::AddNormArgs plain = args;
      plain.weight = Tensor(), plain.round_twice = false;
      ops::add_norm(plain, stream);
      return round_and_weigh(t[2], a.u.dtype, args.weight, context);
    }
    ops::gated_residual({.x = t[0], .u = t[1], .gate = args.gate, .row = args.row, .y = t[3]}, stream);
    round_through(t[3], a.x.dtype, context);
    ops::AddNormArgs norm = args;
    norm.x = t[3], norm.u = zeros, norm.u.dims[0] = t[3].dim(0);
    norm.gate = norm.sum = Tensor();
    if (twice) norm.weight = Tensor(), norm.round_twice = false;
    ops::add_norm(norm, stream);
    if (twice) round_and_weigh(t[2], a.u.dtype, args.weight, context);
  });
}

struct Backward {
  const Tensor &dy, &dsum, &sum, &weight, &bias;
  int64_t kind;
  float eps;
  Tensor trained_weight, trained_bias;
  explicit Backward(Inputs in)
      : dy(in[0].tensor),
        dsum(in[1].tensor),
        sum(in[2].tensor),
        weight(in[3].tensor),
        bias(in[4].tensor),
        kind(in[5].integer),
        eps(static_cast<float>(in[6].number)),
        trained_weight(wanted(weight, in[7].integer)),
        trained_bias(wanted(bias, in[7].integer)) {}
};

Results backward_results(Inputs in) {
  const char* op = "add_norm_backward";
  const Backward a(in);
  expect_value(op, "sum", a.sum);
  norm_kind(op, a.kind);
  expect_beside(op, "dy", a.dy, "sum", a.sum);
  if (a.dsum.defined()) expect_beside(op, "dsum", a.dsum, "sum", a.sum);
  expect_vector(op, "weight", a.weight, a.sum.dim(-1), a.sum);
  expect_vector(op, "bias", a.bias, a.sum.dim(-1), a.sum);
  return {Result::contiguous(a.sum.dtype, a.sum.shape()), gradient_result(a.trained_weight),
          gradient_result(a.trained_bias)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Backward a(in);
  GradientPass pass(context, a.sum.dtype);
  const ops::AddNormBackwardArgs args{.sum = pass.rows(a.sum),
                                      .kind = norm_kind("add_norm_backward", a.kind),
                                      .weight = parameter(a.weight, a.sum.dtype, context),
                                      .eps = a.eps,
                                      .dy = pass.rows(a.dy),
                                      .dsum = pass.rows(a.dsum),
                                      .dx = pass.result_rows(out[0]),
                                      .dweight = pass.parameter_result(a.trained_weight, out[1]),
                                      .dbias = pass.parameter_result(a.trained_bias, out[2])};
  context.compute([&](Stream& stream) { ops::add_norm_backward(args, stream); });
  pass.finish();
}

Results residual_results(Inputs in) {
  const char* op = "gated_residual";
  const Tensor &x = in[0].tensor, &u = in[1].tensor, &gate = in[2].tensor;
  expect_branch(op, u, x);
  expect_modulation(op, "gate", gate, x);
  return {Result::contiguous(x.dtype, x.shape())};
}

void run_residual(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &x = in[0].tensor, &u = in[1].tensor, &gate = in[2].tensor;
  const Tensor table = modulation_table(gate, x, context), rows = modulation_rows(gate, x, context);
  RowPass pass(context, x.dtype);
  pass.read(x);
  pass.read(u);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t first) {
    const ops::GatedResidualArgs args{
        .x = t[0], .u = t[1], .gate = table, .row = part_of(rows, first, t[0].dim(0)), .y = t[2]};
    if (x.dtype == DType::f64)
      ops::gated_residual_ref(args, context.stream());
    else
      ops::gated_residual(args, context.stream());
  });
}

// dx is dy itself, which torch passes on.
Results residual_backward_results(Inputs in) {
  const char* op = "gated_residual_backward";
  const Tensor &dy = in[0].tensor, &u = in[1].tensor, &gate = in[2].tensor;
  expect_branch(op, u, dy);
  expect_modulation(op, "gate", gate, dy);
  return {Result::contiguous(u.dtype, u.shape()), gradient_result(wanted(gate, in[3].integer))};
}

void run_residual_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &dy = in[0].tensor, &u = in[1].tensor, &gate = in[2].tensor;
  GradientPass pass(context, dy.dtype), branch(context, u.dtype);
  const Tensor dgate = pass.parameter_result(wanted(gate, in[3].integer), out[1]);
  const ops::GatedResidualBackwardArgs args{.u = branch.rows(u),
                                            .gate = modulation_table(gate, dy, context),
                                            .row = modulation_rows(gate, dy, context),
                                            .dy = pass.rows(dy),
                                            .du = branch.result_rows(out[0]),
                                            .dgate = dgate.defined() ? dgate.view({-1, u.dim(-1)}) : dgate};
  context.compute([&](Stream& stream) { ops::gated_residual_backward(args, stream); });
  pass.finish();
  branch.finish();
}

}  // namespace

const Op kAddNorm{
    "add_norm",
    "(Tensor x, Tensor u, Tensor? gate, Tensor? weight, Tensor? bias, Tensor? scale, Tensor? shift, "
    "int kind, float eps, bool round_twice) -> (Tensor, Tensor)",
    results, run};
const Op kAddNormBackward{
    "add_norm_backward",
    "(Tensor dy, Tensor? dsum, Tensor sum, Tensor? weight, Tensor? bias, int kind, float eps, "
    "bool parameters) -> (Tensor, Tensor, Tensor)",
    backward_results, run_backward};
const Op kGatedResidual{"gated_residual", "(Tensor x, Tensor u, Tensor? gate) -> Tensor", residual_results,
                        run_residual, true};
const Op kGatedResidualBackward{"gated_residual_backward",
                                "(Tensor dy, Tensor u, Tensor? gate, bool parameters) -> (Tensor, Tensor)",
                                residual_backward_results, run_residual_backward};

}  // namespace tachy::python
