// Moves values between tensors of any strides and float dtypes: if an op cannot take a tensor, it is copied
// to contiguous scratch and back. On the CPU the ops compute in f32 (definitions in f64), so 16-bit values
// are converted here. On a GPU only layouts are converted, and parameters, which the kernels read as f32.
#pragma once

#include "bind/context.h"
#include "tensor/tensor.h"

namespace tachy::python {

// Sets `to` to the values of `from`, which has the same shape; widens or rounds (to nearest even) according
// to the dtypes.
void convert(const Tensor& from, const Tensor& to, Context& context);
void zero(const Tensor& to, Context& context);

// Returns `t` itself if it is contiguous and has this dtype, otherwise a copy in scratch.
Tensor contiguous_as(const Tensor& t, DType dtype, Context& context);

// Returns the dtype in which an op computes on values of this dtype: on the CPU f32 for 16-bit values,
// otherwise the values' own.
inline DType work_dtype(DType dtype, const Context& context) {
  return !context.on_gpu() && (dtype == DType::bf16 || dtype == DType::f16) ? DType::f32 : dtype;
}
// Returns the dtype of parameters and tables beside values of this dtype: f32, or f64 for definitions.
inline DType parameter_dtype(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

// Returns a parameter in the form that the ops read: contiguous, f32 or f64. If it is undefined, it stays so.
inline Tensor parameter(const Tensor& t, DType value, Context& context) {
  return t.defined() ? contiguous_as(t, parameter_dtype(value), context) : t;
}

// The weight and bias of a norm in the form that the kernels over rows read: unchanged if they are on a GPU,
// contiguous, and of the dtype that x and y share; otherwise as `parameter` returns them.
struct Affine {
  Tensor weight, bias;
  Affine(const Tensor& w, const Tensor& b, const Tensor& x, const Tensor& y, Context& context) {
    const auto own = [&](const Tensor& t) { return !t.defined() || (t.dtype == x.dtype && t.contiguous()); };
    const bool direct = context.on_gpu() && x.dtype == y.dtype && own(w) && own(b);
    weight = direct ? w : parameter(w, x.dtype, context), bias = direct ? b : parameter(b, x.dtype, context);
  }
};

// Returns the tensor as [M, C] with one stride between rows and contiguous rows; undefined if its strides do
// not allow it.
Tensor as_rows(const Tensor& t);

// Rounds values to `dtype` and back, in place: for an intermediate result that a module stores in `dtype` and
// we keep in f32. The tensor is [M, C] f32 on the CPU.
void round_through(const Tensor& t, DType dtype, Context& context);
// Does the same and then multiplies each row by `weight`, as at the end of a norm whose module rounds before
// it multiplies by its weight.
void round_and_weigh(const Tensor& t, DType dtype, const Tensor& weight, Context& context);

}  // namespace tachy::python
