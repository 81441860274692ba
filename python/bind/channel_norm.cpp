// The video VAE's norm, with or without SiLU after it, forward and backward. It normalises each position of x
// [N, C, ...] over its channels:
//   n = x · gamma·√C / max(‖x‖₂, 1e-12);  y = silu(n) or n.
// The result is rounded once. Layouts are as in group_norm.cpp.
#include "bind/channels.h"
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/channel_norm/channel_norm_impl.h"

namespace tachy::python {
namespace {

void expect_norm(const char* op, const Tensor& x, const Tensor& gamma) {
  expect_value(op, "x", x);
  require(x.rank >= 2, "{}: expected x [samples, channels, ...], got {}", op, shown(x));
  expect_vector(op, "gamma", gamma, x.dim(1), x);
}

Tensor rows(const Tensor& last) { return last.view({-1, last.dim(-1)}); }

Results results(Inputs in) {
  expect_norm("channel_norm", in[0].tensor, in[1].tensor);
  return {like_channels(in[0].tensor)};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor x = channels_last(in[0].tensor), y = channels_last(out[0]);
  ops::ChannelNormArgs args{.gamma = parameter(in[1].tensor, x.dtype, context), .silu = in[2].integer != 0};
  const bool direct = x.dtype == work_dtype(x.dtype, context) && x.contiguous() && y.contiguous();
  sample_by_sample(x, y, direct, context, [&](const Tensor& from, const Tensor& to) {
    Stream& stream = context.stream();
    args.x = rows(from), args.y = rows(to);
    args.x.dtype == DType::f64 ? ops::channel_norm_ref(args, stream) : ops::channel_norm(args, stream);
  });
}

Results backward_results(Inputs in) {
  const char* op = "channel_norm_backward";
  const Tensor &dy = in[0].tensor, &x = in[1].tensor, &gamma = in[2].tensor;
  expect_norm(op, x, gamma);
  expect_beside(op, "dy", dy, "x", x);
  return {like_channels(x), gradient_result(wanted(gamma, in[4].integer))};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &dy = in[0].tensor, &x = in[1].tensor, &gamma = in[2].tensor;
  GradientPass pass(context, x.dtype);
  const ops::ChannelNormBackwardArgs args{
      .x = rows(pass.whole(channels_last(x))),
      .gamma = parameter(gamma, x.dtype, context),
      .silu = in[3].integer != 0,
      .dy = rows(pass.whole(channels_last(dy))),
      .dx = rows(pass.result(channels_last(out[0]))),
      .dgamma = pass.parameter_result(wanted(gamma, in[4].integer), out[1])};
  context.compute([&](Stream& stream) { ops::channel_norm_backward(args, stream); });
  pass.finish();
}

}  // namespace

const Op kChannelNorm{"channel_norm", "(Tensor x, Tensor gamma, bool silu) -> Tensor", results, run, true};
const Op kChannelNormBackward{
    "channel_norm_backward",
    "(Tensor dy, Tensor x, Tensor gamma, bool silu, bool parameters) -> (Tensor, Tensor)", backward_results,
    run_backward};

}  // namespace tachy::python
