// Gates, scales and shifts of a modulated block: tensors [.., C] that stand beside x [.., C] by torch's rules of
// broadcasting, so [B, 1, C] is one row for each sample and [B, L, C] one for each token. The ops take a table [R, C] and
// the table's row for each token.
#pragma once

#include "bind/context.h"
#include "bind/op.h"

namespace tachy::python {

// Throws unless `t` can stand beside x; what was not given can.
void expect_modulation(const char* op, const char* name, const Tensor& t, const Tensor& x);
// Throws unless both are given or none, and both have one shape.
void expect_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);

// [R, C] in the dtype of parameters beside x; not defined where `t` is not.
Tensor modulation_table(const Tensor& t, const Tensor& x, Context& context);
// [M] i32: where in such a table each of x's rows looks; not defined where it has one row.
Tensor modulation_rows(const Tensor& t, const Tensor& x, Context& context);

// The part of `rows` for [first, first + count); not defined stays so.
inline Tensor part_of(const Tensor& rows, int64_t first, int64_t count) {
  return rows.defined() ? rows.slice(0, first, first + count) : rows;
}

}  // namespace tachy::python
