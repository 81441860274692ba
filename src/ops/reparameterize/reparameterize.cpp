#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {

std::span<const Impl<ReparameterizeArgs>> reparameterize_table() {
  static constexpr Impl<ReparameterizeArgs> table[] = {{"cpu", nullptr, reparameterize_cpu},
                                                       {"ref", nullptr, reparameterize_ref}};
  return table;
}

void reparameterize(const ReparameterizeArgs& a, Stream& stream) {
  const char* op = "reparameterize";
  expect_f32(op, "mean", a.mean, {-1, -1});
  const int64_t m = a.mean.dim(0), p = a.mean.dim(1);
  expect_f32(op, "logvar", a.logvar, {m, p});
  expect_f32(op, "noise", a.noise, {m, p});
  require(a.center.defined() == a.factor.defined(), "{}: expected center and factor together, got only one",
          op);
  if (a.center.defined()) {
    expect_f32(op, "center", a.center, {m});
    expect_f32(op, "factor", a.factor, {m});
  }
  expect_f32(op, "z", a.z, {m, p});
  const auto& impl = pick<ReparameterizeArgs>(op, reparameterize_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
