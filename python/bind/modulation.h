// Gates, scales and shifts of a modulated block: tensors [.., C] that stand beside x [.., C] by torch's rules of
// broadcasting, so [B, 1, C] is one row for each sample and [B, L, C] one for each token. The ops take a table [R, C] and
// the table's row for each token.
#pragma once

#include "bind/context.h"
#include "bind/gradients.h"
#include "bind/op.h"
#include "bind/rows.h"

namespace tachy::python {

// Throws unless `t` can stand beside x; what was not given can.
void expect_modulation(const char* op, const char* name, const Tensor& t, const Tensor& x);
// Throws unless both are given or none, and both have one shape.
void expect_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b);
// Both of it for scale and shift, which stand beside x together.
void expect_scale_and_shift(const char* op, const Tensor& scale, const Tensor& shift, const Tensor& x);

// [R, C] in the dtype of parameters beside x; not defined where `t` is not.
Tensor modulation_table(const Tensor& t, const Tensor& x, Context& context);
// [M] i32: where in such a table each of x's rows looks; not defined where it has one row.
Tensor modulation_rows(const Tensor& t, const Tensor& x, Context& context);

// The part of `rows` for [first, first + count); not defined stays so.
inline Tensor part_of(const Tensor& rows, int64_t first, int64_t count) {
  return rows.defined() ? rows.slice(0, first, first + count) : rows;
}

// Where a backward op writes the gradient of such a table, as [R, C]; not defined where `t` is not.
Tensor modulation_result(GradientPass& pass, const Tensor& t, const Tensor& x, const Tensor& to);

// norm(args, stream) on the rows of x, each with its row of the tables that args has (scale's and shift's).
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
