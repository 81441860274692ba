// Activations by themselves and as the elementwise part of gated linear units, forward and backward:
//   activation: y = act(x);   glu: y = act(gate) · up
// With round_twice, act(gate) is rounded to the tensors' dtype before it is multiplied, as in modules that
// compute the two in separate kernels. `kind` is the value in ops::Activation: 1 silu, 2 gelu by tanh, 3 gelu
// by erf, 4 mish.
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/activation/activation_impl.h"
#include "ops/glu/glu_impl.h"

namespace tachy::python {

ops::Activation activation_kind(const char* op, int64_t kind, int64_t first) {
  require(kind >= first && kind <= 4,
          "{}: expected kind {}1 (silu), 2 (gelu by tanh), 3 (gelu by erf) or 4 (mish), got {}", op,
          first == 0 ? "0 (none), " : "", kind);
  return static_cast<ops::Activation>(kind);
}

namespace {

static_assert(static_cast<int>(ops::Activation::silu) == 1 && static_cast<int>(ops::Activation::mish) == 4);

Results results(Inputs in) {
  const Tensor& x = in[0].tensor;
  expect_value("activation", "x", x);
  activation_kind("activation", in[1].integer, 1);
  return {Result::contiguous(x.dtype, x.shape())};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const ops::Activation kind = activation_kind("activation", in[1].integer, 1);
  RowPass pass(context, in[0].tensor.dtype, RowPass::Layout::contiguous);
  pass.read(in[0].tensor);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t) {
    const ops::ActivationArgs args{.x = t[0], .kind = kind, .y = t[1]};
    if (t[0].dtype == DType::f64)
      ops::activation_ref(args, context.stream());
    else
      ops::activation(args, context.stream());
  });
}

Results backward_results(Inputs in) {
  const char* op = "activation_backward";
  const Tensor &dy = in[0].tensor, &x = in[1].tensor;
  expect_value(op, "x", x);
  expect_beside(op, "dy", dy, "x", x);
  activation_kind(op, in[2].integer, 1);
  return {Result::contiguous(x.dtype, x.shape())};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &dy = in[0].tensor, &x = in[1].tensor;
  GradientPass pass(context, x.dtype);
  const ops::ActivationBackwardArgs args{.x = pass.whole(x),
                                         .dy = pass.whole(dy),
                                         .kind = activation_kind("activation_backward", in[2].integer, 1),
                                         .dx = pass.result(out[0])};
  ops::activation_backward(args, context.stream());
  pass.finish();
}

void glu(const ops::GluArgs& args, Stream& stream) {
  args.a.dtype == DType::f64 ? ops::glu_ref(args, stream) : ops::glu(args, stream);
}

Results glu_results(Inputs in) {
  const char* op = "glu";
  const Tensor &gate = in[0].tensor, &up = in[1].tensor;
  expect_value(op, "gate", gate);
  expect_beside(op, "up", up, "gate", gate);
  activation_kind(op, in[2].integer, 0);
  return {Result::contiguous(gate.dtype, gate.shape())};
}

// Returns a row of ones, [1, C], that can stand for every row: its stride is 0.
Tensor ones_like(const Tensor& rows, Context& context) {
  const auto fill = [&](const Tensor& to) {
    for (int64_t i = 0; i < to.numel(); ++i) {
      if (to.dtype == DType::bf16) to.as<bf16_t>()[i] = to_bf16(1);
      if (to.dtype == DType::f16) to.as<f16_t>()[i] = to_f16(1);
      if (to.dtype == DType::f32) to.as<float>()[i] = 1;
    }
  };
  const std::string words = "ones " + std::to_string(rows.dim(1)) + " " + std::string(dtype_name(rows.dtype));
  Tensor ones = context.table(words, rows.dtype, {1, rows.dim(1)}, fill);
  ones.dims[0] = rows.dim(0), ones.strides[0] = 0;
  return ones;
}

void run_glu(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &gate = in[0].tensor, &up = in[1].tensor;
  const ops::Activation kind = activation_kind("glu", in[2].integer, 0);
  const bool twice = in[3].integer && dtype_size(gate.dtype) == 2;
  RowPass pass(context, gate.dtype);
  pass.read(gate);
  pass.read(up);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t) {
    Stream& stream = context.stream();
    if (!twice) return glu({.a = t[0], .b = t[1], .kind = kind, .y = t[2]}, stream);
    glu({.a = t[0], .b = ones_like(t[0], context), .kind = kind, .y = t[2]}, stream);
    if (!context.on_gpu()) round_through(t[2], gate.dtype, context);
    glu({.a = t[2], .b = t[1], .kind = ops::Activation::none, .y = t[2]}, stream);
  });
}

Results glu_backward_results(Inputs in) {
  const char* op = "glu_backward";
  const Tensor &dy = in[0].tensor, &gate = in[1].tensor, &up = in[2].tensor;
  expect_value(op, "gate", gate);
  expect_beside(op, "dy", dy, "gate", gate);
  expect_beside(op, "up", up, "gate", gate);
  activation_kind(op, in[3].integer, 0);
  const Result like = Result::contiguous(gate.dtype, gate.shape());
  return {like, like};
}

void run_glu_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  GradientPass pass(context, in[1].tensor.dtype);
  const ops::GluBackwardArgs args{.a = pass.rows(in[1].tensor),
                                  .b = pass.rows(in[2].tensor),
                                  .dy = pass.rows(in[0].tensor),
                                  .kind = activation_kind("glu_backward", in[3].integer, 0),
                                  .da = pass.result_rows(out[0]),
                                  .db = pass.result_rows(out[1])};
  ops::glu_backward(args, context.stream());
  pass.finish();
}

}  // namespace

const Op kActivation{"activation", "(Tensor x, int kind) -> Tensor", results, run, true};
const Op kActivationBackward{"activation_backward", "(Tensor dy, Tensor x, int kind) -> Tensor",
                             backward_results, run_backward};
const Op kGlu{"glu", "(Tensor gate, Tensor up, int kind, bool round_twice) -> Tensor", glu_results, run_glu,
              true};
const Op kGluBackward{"glu_backward", "(Tensor dy, Tensor gate, Tensor up, int kind) -> (Tensor, Tensor)",
                      glu_backward_results, run_glu_backward};

}  // namespace tachy::python
