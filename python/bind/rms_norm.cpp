// RMSNorm over the last dim, forward and backward.
//   rms_norm: y = x / sqrt(mean(x²) + eps) · weight; with round_twice x / sqrt(…) is rounded to x's dtype before it is
//   multiplied, as diffusers' and transformers' modules do, which compute the two in kernels of their own.
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/elementwise/elementwise.h"
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
  const Tensor weight = parameter(a.weight, a.x.dtype, context);
  RowPass pass(context, a.x.dtype);
  pass.read(a.x);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t) {
    norm({.x = t[0], .weight = twice ? Tensor() : weight, .eps = a.eps, .y = t[1]}, context.stream());
    if (!twice) return;
    if (!context.on_gpu()) round_through(t[1], a.x.dtype, context);
    ops::copy({.x = t[1], .scale = weight, .channel_axis = 1, .y = t[1]}, context.stream());
  });
}

struct Backward {
  const Tensor &dy, &x, &weight;
  float eps;
  explicit Backward(Inputs in)
      : dy(in[0].tensor), x(in[1].tensor), weight(in[2].tensor), eps(static_cast<float>(in[3].number)) {}
};

Results backward_results(Inputs in) {
  const char* op = "rms_norm_backward";
  const Backward a(in);
  expect_value(op, "x", a.x);
  expect_beside(op, "dy", a.dy, "x", a.x);
  expect_vector(op, "weight", a.weight, a.x.dim(-1), a.x);
  return {Result::contiguous(a.x.dtype, a.x.shape()), gradient_result(a.weight)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Backward a(in);
  GradientPass pass(context, a.x.dtype);
  ops::RmsNormBackwardArgs args{.x = pass.rows(a.x),
                                .weight = parameter(a.weight, a.x.dtype, context),
                                .dy = pass.rows(a.dy),
                                .eps = a.eps,
                                .dx = pass.result_rows(out[0]),
                                .dweight = pass.parameter_result(a.weight, out[1])};
  context.compute([&](Stream& stream) { ops::rmsnorm_backward(args, stream); });
  pass.finish();
}

}  // namespace

const Op kRmsNorm{"rms_norm", "(Tensor x, Tensor? weight, float eps, bool round_twice) -> Tensor", results,
                  run, true};
const Op kRmsNormBackward{"rms_norm_backward",
                          "(Tensor dy, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)",
                          backward_results, run_backward};

}  // namespace tachy::python
