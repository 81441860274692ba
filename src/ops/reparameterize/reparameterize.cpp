#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {

void reparameterize_cuda(const ReparameterizeArgs& args, Stream& stream);  // reparameterize_sm80.cu

std::span<const Impl<ReparameterizeArgs>> reparameterize_table() {
  static constexpr Impl<ReparameterizeArgs> table[] = {gpu_impl<reparameterize_cuda>("cuda"),
                                                       {"cpu", nullptr, reparameterize_cpu},
                                                       {"ref", nullptr, reparameterize_ref}};
  return table;
}

void reparameterize(const ReparameterizeArgs& a, Stream& stream) {
  const char* op = "reparameterize";
  expect_float(op, "mean", a.mean, {-1, -1}, stream);
  const int64_t m = a.mean.dim(0), p = a.mean.dim(1);
  expect_float(op, "logvar", a.logvar, {m, p}, stream);
  expect_float(op, "noise", a.noise, {m, p}, stream);
  require(a.center.defined() == a.factor.defined(), "{}: expected center and factor together, got only one",
          op);
  if (a.center.defined()) {
    expect_f32(op, "center", a.center, {m});
    expect_f32(op, "factor", a.factor, {m});
  }
  expect_float(op, "z", a.z, {m, p}, stream);
  const auto& impl = pick<ReparameterizeArgs>(op, reparameterize_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
