// The implementations of add_rows, for its table and the op runner. Each value is one rounded sum, so every
// implementation gives the definition's bits.
#pragma once

#include "ops/add_rows/add_rows.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void add_rows_ref(const AddRowsArgs& args, Stream& stream);
void add_rows_cuda(const AddRowsArgs& args, Stream& stream);
std::span<const Impl<AddRowsArgs>> add_rows_table();

}  // namespace tachy::ops
