// Linear layers with what follows them:
//   linear:         y = act(x·Wᵀ + bias), or y = residual + gate·act(x·Wᵀ + bias), rounded once
//   scaled_linear:  y = act(x·Wᵀ + bias) in 8 bits: the weight is codes with a scale for each of its rows, and
//                   the rows of x are rounded to codes of the same kind before the product
// x [..., K] and weight [N, K] give y [..., N]. On the CPU the dtypes of weight and x may differ; on a GPU the weight
// has x's, and y has x's dtype or f32. Codes come as i8, and those of e4m3 as their bytes. Gradients are
// products of torch (_gradients_linear.py).
#include <algorithm>
#include <cmath>

#include "bind/convert.h"
#include "bind/modulation.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/gemm/gemm.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy::python {
namespace {

// Describes y without its values, so that what is added to it can be checked against it.
Tensor described(const Tensor& x, const Tensor& weight) {
  Tensor y = x;
  y.data = nullptr;
  y.dims[y.rank - 1] = weight.dim(0);
  return y;
}

void expect_weight(const char* op, const Tensor& x, const Tensor& weight) {
  require(weight.rank == 2 && weight.dim(1) == x.dim(-1), "{}: expected weight [out, {}], got {}", op,
          x.dim(-1), shown(weight));
  require(x.dim(-1) >= 1, "{}: expected x with at least one channel, got {}", op, shown(x));
}

struct Call {
  const Tensor &x, &weight, &bias, &gate, &residual;
  ops::Activation act;
  explicit Call(Inputs in)
      : x(in[0].tensor),
        weight(in[1].tensor),
        bias(in[2].tensor),
        gate(in[3].tensor),
        residual(in[4].tensor),
        act(activation_kind("linear", in[5].integer, 0)) {}
};

void expect_dtypes(const Call& c) {
  const char* op = "linear";
  const bool wide = c.x.dtype == DType::f64, gpu = c.x.device.type == DeviceType::cuda;
  require((c.weight.dtype == DType::f64) == wide && (!gpu || c.weight.dtype == c.x.dtype),
          "{}: expected weight {} beside {}, got {}", op,
          gpu || wide ? dtype_name(c.x.dtype) : "f32, f16 or bf16", dtype_name(c.x.dtype),
          dtype_name(c.weight.dtype));
  const DType made = c.residual.defined() ? c.residual.dtype : c.x.dtype;
  require(!gpu || !c.bias.defined() || c.bias.dtype == made || made == DType::f32,
          "{}: expected bias {} as the result, got {}", op, dtype_name(made), dtype_name(c.bias.dtype));
  if (!c.residual.defined()) return;
  require((c.residual.dtype == DType::f64) == wide &&
              (!gpu || c.residual.dtype == c.x.dtype || c.residual.dtype == DType::f32),
          "{}: expected residual {} beside {}, got {}", op,
          wide  ? "f64"
          : gpu ? "of x's dtype or f32"
                : "f32, f16 or bf16",
          dtype_name(c.x.dtype), dtype_name(c.residual.dtype));
}

Results results(Inputs in) {
  const char* op = "linear";
  const Call c(in);
  expect_value(op, "x", c.x);
  expect_value(op, "weight", c.weight);
  expect_weight(op, c.x, c.weight);
  expect_vector(op, "bias", c.bias, c.weight.dim(0), c.x);
  const Tensor y = described(c.x, c.weight);
  require(!c.gate.defined() || c.residual.defined(), "{}: expected residual beside gate, got none", op);
  if (c.residual.defined()) {
    expect_value(op, "residual", c.residual);
    require(same_shape(c.residual, y), "{}: expected residual {}, got {}", op, shown(y), shown(c.residual));
  }
  expect_modulation(op, "gate", c.gate, y);
  expect_dtypes(c);
  return {Result::contiguous((c.residual.defined() ? c.residual : c.x).dtype, y.shape())};
}

// The definition in float64, by which gradients are checked.
void run_wide(const ops::GemmArgs& a) {
  const auto value = [](const Tensor& t, int64_t row, int64_t column) {
    return t.as<double>()[row * t.stride(0) + column];
  };
  for (int64_t m = 0; m < a.y.dim(0); ++m)
    for (int64_t n = 0; n < a.y.dim(1); ++n) {
      double t = a.bias.defined() ? a.bias.as<double>()[n] : 0;
      for (int64_t k = 0; k < a.x.dim(1); ++k) t += value(a.x, m, k) * value(a.weight, n, k);
      if (a.act == ops::Activation::silu) t /= 1 + std::exp(-t);
      if (a.act == ops::Activation::gelu_tanh)
        t *= 0.5 * (1 + std::tanh(0.79788456080286535588 * (t + 0.044715 * t * t * t)));
      if (a.act == ops::Activation::gelu_erf) t *= 0.5 * std::erfc(-t * 0.70710678118654752440);
      if (a.act == ops::Activation::mish) t *= std::tanh(std::log1p(std::exp(t)));
      if (a.gate.defined()) t *= value(a.gate, a.row.defined() ? a.row.as<int32_t>()[m] : 0, n);
      if (a.residual.defined()) t += value(a.residual, m, n);
      a.y.as<double>()[m * a.y.stride(0) + n] = t;
    }
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Call c(in);
  const Tensor y = described(c.x, c.weight);
  GradientPass before(context, c.x.dtype), after(context, out[0].dtype);  // these take operands as a whole
  const ops::GemmArgs args{
      .x = before.rows(c.x),
      .weight = contiguous_as(c.weight, c.weight.dtype, context),
      .bias = c.bias.defined() ? contiguous_as(c.bias, work_dtype(out[0].dtype, context), context) : c.bias,
      .act = c.act,
      .gate = modulation_table(c.gate, y, context),
      .row = modulation_rows(c.gate, y, context),
      .residual = after.rows(c.residual),
      .y = after.result_rows(out[0])};
  if (c.x.dtype == DType::f64)
    run_wide(args);
  else
    context.compute([&](Stream& stream) { ops::gemm(args, stream); });
  after.finish();
}

struct ScaledCall {
  const Tensor &x, &codes, &scales, &bias;
  ops::Activation act;
  bool e4m3;
  explicit ScaledCall(Inputs in)
      : x(in[0].tensor),
        codes(in[1].tensor),
        scales(in[2].tensor),
        bias(in[3].tensor),
        act(activation_kind("scaled_linear", in[4].integer, 0)),
        e4m3(in[5].integer != 0) {}
};

Results scaled_results(Inputs in) {
  const char* op = "scaled_linear";
  const ScaledCall c(in);
  expect_value(op, "x", c.x);
  require(c.x.dtype != DType::f64, "{}: expected x f32, f16 or bf16, got f64", op);
  require(c.codes.dtype == DType::i8, "{}: expected codes i8, got {}", op, dtype_name(c.codes.dtype));
  expect_weight(op, c.x, c.codes);
  require(c.codes.contiguous(), "{}: expected codes {} contiguous, got strides", op, shown(c.codes));
  expect_vector(op, "scales", c.scales, c.codes.dim(0), c.x);
  require(c.scales.dtype == DType::f32, "{}: expected scales f32, got {}", op, dtype_name(c.scales.dtype));
  expect_vector(op, "bias", c.bias, c.codes.dim(0), c.x);
  require(!c.bias.defined() || c.x.device.type == DeviceType::cpu || c.bias.dtype == c.x.dtype ||
              c.x.dtype == DType::f32,
          "{}: expected bias {} as x, got {}", op, dtype_name(c.x.dtype), dtype_name(c.bias.dtype));
  return {Result::contiguous(c.x.dtype, described(c.x, c.codes).shape())};
}

void run_scaled(Inputs in, std::span<const Tensor> out, Context& context) {
  const ScaledCall c(in);
  GradientPass pass(context, c.x.dtype);
  Tensor weight = c.codes;
  if (c.e4m3) weight.dtype = DType::f8_e4m3;
  const Tensor x = pass.rows(c.x), y = pass.result_rows(out[0]);
  const Tensor codes = context.scratch(weight.dtype, {x.dim(0), x.dim(1)});
  const Tensor scale = context.scratch(DType::f32, {x.dim(0)});
  const Tensor bias = c.bias.defined() ? contiguous_as(c.bias, y.dtype, context) : c.bias;
  const Tensor scales = contiguous_as(c.scales, DType::f32, context);
  context.compute([&](Stream& stream) {
    ops::quantize({.x = x, .block = {1, 0}, .scale = scale.view({x.dim(0), 1}), .q = codes}, stream);
    ops::scaled_gemm({.x = codes,
                      .x_scale = scale,
                      .weight = weight,
                      .weight_scale = scales,
                      .bias = bias,
                      .act = c.act,
                      .y = y},
                     stream);
  });
  pass.finish();
}

}  // namespace

const Op kLinear{"linear",
                 "(Tensor x, Tensor weight, Tensor? bias, Tensor? gate, Tensor? residual, int act) -> Tensor",
                 results, run};

const Op kScaledLinear{"scaled_linear",
                       "(Tensor x, Tensor codes, Tensor scales, Tensor? bias, int act, bool e4m3) -> Tensor",
                       scaled_results, run_scaled};

}  // namespace tachy::python
