// Functions that the backward ops share. On the CPU these ops are definitions in f32 (or f64), so 16-bit
// operands are converted as a whole; on a GPU they take 16-bit activations as rows, with parameters and their
// gradients in f32.
#pragma once

#include <vector>

#include "bind/context.h"
#include "bind/op.h"

namespace tachy::python {

// Describes the gradient of a parameter: like the parameter, or without values if there is no parameter.
Result gradient_result(const Tensor& parameter);

// The parameter for the two functions that describe and take its gradient; none where no parameter's gradient
// is wanted, as with adapters beside a model that is not trained.
inline Tensor wanted(const Tensor& parameter, bool parameters) { return parameters ? parameter : Tensor(); }

class GradientPass {
 public:
  GradientPass(Context& context, DType dtype);

  // Returns an operand as [M, C]; if it is undefined, it stays so.
  Tensor rows(const Tensor& t);
  // Returns an operand in its own shape, contiguous.
  Tensor whole(const Tensor& t);
  // Returns the tensor to which the backward op writes the values for `to`; finish() copies them there.
  Tensor result_rows(const Tensor& to);
  Tensor result(const Tensor& to);
  // Does the same for a parameter's gradient; undefined if `parameter` is undefined.
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
