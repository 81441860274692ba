#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/position_bias/position_bias_impl.h"

namespace tachy::ops {

std::span<const Impl<PositionBiasArgs>> position_bias_table() {
  static constexpr Impl<PositionBiasArgs> table[] = {gpu_impl<position_bias_cuda>("cuda"),
                                                     {"ref", nullptr, position_bias_ref}};
  return table;
}

void position_bias(const PositionBiasArgs& a, Stream& stream) {
  const char* op = "position_bias";
  expect_f32(op, "table", a.table, {-1, -1});
  const int64_t heads = a.table.dim(1), length = a.y.dim(1);
  expect_contiguous(op, "table", a.table);
  expect_rows(op, a.bucket, 2 * length - 1, a.table.dim(0), stream);
  expect_f32(op, "y", a.y, {heads, length, length});
  expect_contiguous(op, "y", a.y);
  if (count_pass(op, a.y.dtype, {a.y}, stream)) return;
  const auto& impl = pick<PositionBiasArgs>(op, position_bias_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
