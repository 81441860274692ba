#include "ops/count_work.h"
#include "ops/merge_softmax/merge_softmax_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<MergeSoftmaxArgs>> merge_softmax_table() {
  static constexpr Impl<MergeSoftmaxArgs> table[] = {{"cpu", nullptr, merge_softmax_working},
                                                     {"ref", nullptr, merge_softmax_ref}};
  return table;
}

void merge_softmax(const MergeSoftmaxArgs& a, Stream& stream) {
  const char* op = "merge_softmax";
  expect_f32(op, "x", a.x, {-1, -1, -1, -1});
  const int64_t b = a.x.dim(0), l = a.x.dim(1), h = a.x.dim(2), d = a.x.dim(3);
  expect_f32(op, "y", a.y, {b, l, h, d});
  expect_f32(op, "x_lse", a.x_lse, {b, h, l});
  expect_contiguous(op, "x_lse", a.x_lse);
  expect_f32(op, "y_lse", a.y_lse, {b, h, l});
  expect_contiguous(op, "y_lse", a.y_lse);
  if (count_pass(op, a.y.dtype, {a.x, a.y, a.y}, stream)) return;
  const auto& impl = pick<MergeSoftmaxArgs>(op, merge_softmax_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
