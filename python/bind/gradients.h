// What the backward ops share. On the CPU they are definitions in f32 (or f64), so 16-bit operands are converted as a
// whole; on a GPU they take 16-bit activations as rows, with parameters and their gradients in f32.
#pragma once

#include <vector>

#include "bind/context.h"
#include "bind/op.h"

namespace tachy::python {

// The gradient of a parameter: as the parameter, or of no values where there is none.
Result gradient_result(const Tensor& parameter);

class GradientPass {
 public:
  GradientPass(Context& context, DType dtype);

  // An operand as [M, C]; one that was not given stays so.
  Tensor rows(const Tensor& t);
  // An operand of its own shape, contiguous.
  Tensor whole(const Tensor& t);
  // Where the backward op writes what `to` is to hold; finish() brings it there.
  Tensor result_rows(const Tensor& to);
  Tensor result(const Tensor& to);
  // The same of a parameter's gradient: not defined where `parameter` is not.
  Tensor parameter_result(const Tensor& parameter, const Tensor& to);
  void finish();

 private:
  struct Pending {
    Tensor from, to;
  };
  Tensor pending(const Tensor& to, DType dtype);

  Context& context_;
  DType work_;
  std::vector<Pending> pending_;
};

}  // namespace tachy::python
