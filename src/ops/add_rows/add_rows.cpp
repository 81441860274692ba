#include "ops/add_rows/add_rows_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AddRowsArgs>> add_rows_table() {
  static constexpr Impl<AddRowsArgs> table[] = {gpu_impl<add_rows_cuda>("cuda"),
                                                {"ref", nullptr, add_rows_ref}};
  return table;
}

void add_rows(const AddRowsArgs& a, Stream& stream) {
  const char* op = "add_rows";
  expect_f32(op, "table", a.table, {-1, -1});
  const int64_t l = a.table.dim(0), c = a.table.dim(1);
  expect_f32(op, "rows", a.rows, {-1, c});
  expect_f32(op, "y", a.y, {l, a.rows.dim(0), c});
  expect_contiguous(op, "y", a.y);
  if (count_pass(op, a.y.dtype, {a.rows, a.y}, stream)) return;
  const auto& impl = pick<AddRowsArgs>(op, add_rows_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
