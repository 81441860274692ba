// GroupNorm with the activation after it, forward and backward, for x [N, C, ...] as torch stores images and
// clips. Contiguous tensors and those with channels last (torch.channels_last and torch.channels_last_3d) are
// used as they are. Others are converted to scratch and back one sample at a time. The result is laid out
// like x.
#include "bind/channels.h"
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/group_norm/group_norm_impl.h"

namespace tachy::python {
namespace {

void expect_norm(const char* op, const Tensor& x, const Value& groups, const Tensor& weight,
                 const Tensor& bias, const Value& act) {
  expect_value(op, "x", x);
  require(x.rank >= 2, "{}: expected x [samples, channels, ...], got {}", op, shown(x));
  require(groups.integer >= 1 && groups.integer <= x.dim(1) && x.dim(1) % groups.integer == 0,
          "{}: expected groups that divide {} channels, got {}", op, x.dim(1), groups.integer);
  expect_vector(op, "weight", weight, x.dim(1), x);
  expect_vector(op, "bias", bias, x.dim(1), x);
  activation_kind(op, act.integer, 0);
}

Results results(Inputs in) {
  expect_norm("group_norm", in[0].tensor, in[1], in[2].tensor, in[3].tensor, in[5]);
  return {like_channels(in[0].tensor)};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor x = channels_last(in[0].tensor), y = channels_last(out[0]);
  ops::GroupNormArgs args{.groups = static_cast<int>(in[1].integer),
                          .weight = parameter(in[2].tensor, x.dtype, context),
                          .bias = parameter(in[3].tensor, x.dtype, context),
                          .eps = static_cast<float>(in[4].number),
                          .act = activation_kind("group_norm", in[5].integer, 0)};
  const DType work = work_dtype(x.dtype, context);
  const auto norm = [&](const Tensor& from, const Tensor& to) {
    args.x = from, args.y = to;
    context.compute([&](Stream& stream) {
      from.dtype == DType::f64 ? ops::group_norm_ref(args, stream) : ops::group_norm(args, stream);
    });
  };
  const Tensor& first = in[0].tensor;
  // The values of a group then lie side by side.
  args.channels_first = first.contiguous() && !x.contiguous() && first.numel() > 0;
  if (args.channels_first) {
    const auto planes = [](const Tensor& t) { return t.view({t.dim(0), t.dim(1), -1}); };
    return sample_by_sample(first, out[0], first.dtype == work && out[0].contiguous(), context,
                            [&](const Tensor& from, const Tensor& to) { norm(planes(from), planes(to)); });
  }
  sample_by_sample(x, y, x.dtype == work && x.contiguous() && y.contiguous(), context,
                   [&](const Tensor& from, const Tensor& to) { norm(three_dims(from), three_dims(to)); });
}

Results backward_results(Inputs in) {
  const char* op = "group_norm_backward";
  const Tensor &dy = in[0].tensor, &x = in[1].tensor;
  expect_norm(op, x, in[2], in[3].tensor, in[4].tensor, in[6]);
  expect_beside(op, "dy", dy, "x", x);
  const auto trained = [&](size_t i) { return gradient_result(wanted(in[i].tensor, in[7].integer)); };
  return {like_channels(x), trained(3), trained(4)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor &dy = in[0].tensor, &x = in[1].tensor, &weight = in[3].tensor, &bias = in[4].tensor;
  GradientPass pass(context, x.dtype);
  const ops::GroupNormBackwardArgs args{
      .x = three_dims(pass.whole(channels_last(x))),
      .groups = static_cast<int>(in[2].integer),
      .weight = parameter(weight, x.dtype, context),
      .bias = parameter(bias, x.dtype, context),
      .eps = static_cast<float>(in[5].number),
      .act = activation_kind("group_norm_backward", in[6].integer, 0),
      .dy = three_dims(pass.whole(channels_last(dy))),
      .dx = three_dims(pass.result(channels_last(out[0]))),
      .dweight = pass.parameter_result(wanted(weight, in[7].integer), out[1]),
      .dbias = pass.parameter_result(wanted(bias, in[7].integer), out[2])};
  context.compute([&](Stream& stream) { ops::group_norm_backward(args, stream); });
  pass.finish();
}

}  // namespace

const Op kGroupNorm{"group_norm",
                    "(Tensor x, int groups, Tensor? weight, Tensor? bias, float eps, int act) -> Tensor",
                    results, run, true};
const Op kGroupNormBackward{
    "group_norm_backward",
    "(Tensor dy, Tensor x, int groups, Tensor? weight, Tensor? bias, float eps, int act, "
    "bool parameters) -> (Tensor, Tensor, Tensor)",
    backward_results, run_backward};

}  // namespace tachy::python
