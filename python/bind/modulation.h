// Gates, scales and shifts of a modulated block: tensors [.., C] that broadcast to x [.., C] by torch's
// rules, so [B, 1, C] is one row for each sample and [B, L, C] one for each token. The ops take a table
// [R, C] and the index of the table's row for each token.
#pragma once

#include "bind/context.h"
#include "bind/gradients.h"
#include "bind/op.h"
#include "bind/rows.h"

namespace tachy::python {

// Throws unless `t` broadcasts to x; an undefined tensor does.
void expect_modulation(const char* op, const char* name, const Tensor& t, const Tensor& x);
// Throws unless both tensors are given or neither is, and both have the same shape.
void expect_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);
// Checks scale and shift by both functions; they must broadcast to x together.
void expect_scale_and_shift(const char* op, const Tensor& scale, const Tensor& shift, const Tensor& x);

// Returns [R, C] in the dtype of parameters beside x; undefined if `t` is undefined.
Tensor modulation_table(const Tensor& t, const Tensor& x, Context& context);
// Returns [M] i32, the row in a modulation table for each of x's rows; undefined if the table has one row.
Tensor modulation_rows(const Tensor& t, const Tensor& x, Context& context);

// Returns the part of `rows` for [first, first + count); if `rows` is undefined, it stays so.
inline Tensor part_of(const Tensor& rows, int64_t first, int64_t count) {
  return rows.defined() ? rows.slice(0, first, first + count) : rows;
}

// Returns the tensor for a backward op's gradient of a modulation table, as [R, C]; undefined if `t` is
// undefined.
Tensor modulation_result(GradientPass& pass, const Tensor& t, const Tensor& x, const Tensor& to);

// Calls norm(args, stream) on the rows of x, each with its own row of the tables in args (scale and shift).
template <class Args, class Norm>
void run_modulated_rows(Args& args, const Tensor& x, const Tensor& scale, const Tensor& out, Context& context,
                        Norm&& norm) {
  const Tensor rows = modulation_rows(scale, x, context);
  RowPass pass(context, x.dtype);
  pass.read(x);
  pass.write(out);
  pass.run([&](std::span<const Tensor> t, int64_t first) {
    args.x = t[0], args.y = t[1], args.row = part_of(rows, first, t[0].dim(0));
    norm(args, context.stream());
  });
}

}  // namespace tachy::python
