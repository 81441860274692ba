#include "ops/count_work.h"
#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void glu_cuda(const GluArgs& args, Stream& stream);  // glu_sm80.cu

std::span<const Impl<GluArgs>> glu_table() {
  static constexpr Impl<GluArgs> table[] = {
      gpu_impl<glu_cuda>("cuda"), {"cpu", nullptr, glu_cpu}, {"ref", nullptr, glu_ref}};
  return table;
}

void glu(const GluArgs& args, Stream& stream) {
  const char* op = "glu";
  expect_float(op, "a", args.a, {-1, -1}, stream);
  expect_float(op, "b", args.b, {args.a.dim(0), args.a.dim(1)}, stream);
  expect_float(op, "y", args.y, {args.a.dim(0), args.a.dim(1)}, stream);
  expect_same_dtype(op, "b", args.b, args.a);
  expect_same_dtype(op, "y", args.y, args.a);
  if (count_pass(op, args.y.dtype, {args.a, args.b, args.y}, stream)) return;
  const auto& impl = pick<GluArgs>(op, glu_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

}  // namespace tachy::ops
