// A draw from a VAE's posterior, forward and backward: z = mean + exp(clamp(logvar, −30, 20) / 2) · noise.
// The caller supplies the noise.
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::python {
namespace {

Results results(Inputs in) {
  const char* op = "reparameterize";
  const Tensor& mean = in[0].tensor;
  expect_value(op, "mean", mean);
  expect_beside(op, "logvar", in[1].tensor, "mean", mean);
  expect_beside(op, "noise", in[2].tensor, "mean", mean);
  return {Result::contiguous(mean.dtype, mean.shape())};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  RowPass pass(context, in[0].tensor.dtype);
  for (const Value& value : in) pass.read(value.tensor);
  pass.write(out[0]);
  pass.run([&](std::span<const Tensor> t, int64_t) {
    const ops::ReparameterizeArgs args{.mean = t[0], .logvar = t[1], .noise = t[2], .z = t[3]};
    if (t[0].dtype == DType::f64)
      ops::reparameterize_ref(args, context.stream());
    else
      ops::reparameterize(args, context.stream());
  });
}

Results backward_results(Inputs in) {
  const char* op = "reparameterize_backward";
  const Tensor &dz = in[0].tensor, &logvar = in[1].tensor;
  expect_value(op, "logvar", logvar);
  expect_beside(op, "dz", dz, "logvar", logvar);
  expect_beside(op, "noise", in[2].tensor, "logvar", logvar);
  const Result like = Result::contiguous(logvar.dtype, logvar.shape());
  return {like, like};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  GradientPass pass(context, in[1].tensor.dtype);
  const ops::ReparameterizeBackwardArgs args{.logvar = pass.rows(in[1].tensor),
                                             .noise = pass.rows(in[2].tensor),
                                             .dz = pass.rows(in[0].tensor),
                                             .dmean = pass.result_rows(out[0]),
                                             .dlogvar = pass.result_rows(out[1])};
  ops::reparameterize_backward(args, context.stream());
  pass.finish();
}

}  // namespace

const Op kReparameterize{"reparameterize", "(Tensor mean, Tensor logvar, Tensor noise) -> Tensor", results,
                         run, true};
const Op kReparameterizeBackward{"reparameterize_backward",
                                 "(Tensor dz, Tensor logvar, Tensor noise) -> (Tensor, Tensor)",
                                 backward_results, run_backward};

}  // namespace tachy::python
