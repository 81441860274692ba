#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<GluArgs>> glu_table() {
  static constexpr Impl<GluArgs> table[] = {{"cpu", nullptr, glu_cpu}, {"ref", nullptr, glu_ref}};
  return table;
}

void glu(const GluArgs& args, Stream& stream) {
  const char* op = "glu";
  expect_f32(op, "a", args.a, {-1, -1});
  expect_f32(op, "b", args.b, {args.a.dim(0), args.a.dim(1)});
  expect_f32(op, "y", args.y, {args.a.dim(0), args.a.dim(1)});
  const auto& impl = pick<GluArgs>(op, glu_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

}  // namespace tachy::ops
