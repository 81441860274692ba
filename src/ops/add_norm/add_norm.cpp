#include "ops/add_norm/add_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AddNormArgs>> add_norm_table() {
  static constexpr Impl<AddNormArgs> table[] = {{"cpu", nullptr, add_norm_cpu},
                                                {"ref", nullptr, add_norm_ref}};
  return table;
}

void add_norm(const AddNormArgs& a, Stream& stream) {
  const char* op = "add_norm";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  expect_float(op, "u", a.u, {m, c}, stream);
  if (a.weight.defined()) expect_f32(op, "weight", a.weight, {c});
  if (a.bias.defined()) expect_f32(op, "bias", a.bias, {c});
  if (a.sum.defined()) {
    expect_float(op, "sum", a.sum, {m, c}, stream);
    require(a.sum.data != a.y.data || a.y.numel() == 0 || stream.measuring(),
            "{}: expected sum and y in different places, got the same", op);
  }
  expect_float(op, "y", a.y, {m, c}, stream);
  const auto& impl = pick<AddNormArgs>(op, add_norm_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
