// Values between tensors of any strides and float dtypes: what the ops take no other way is brought into contiguous
// scratch and back. On the CPU the ops compute in f32 (definitions in f64), so 16-bit values pass through here; on a GPU
// only layouts do, and parameters, which the kernels read as f32.
#pragma once

#include "bind/context.h"
#include "tensor/tensor.h"

namespace tachy::python {

// to = from, of one shape; widens and rounds (to nearest even) as the dtypes say.
void convert(const Tensor& from, const Tensor& to, Context& context);
void zero(const Tensor& to, Context& context);

// `t` itself where it is contiguous and of this dtype, otherwise a copy in scratch.
Tensor contiguous_as(const Tensor& t, DType dtype, Context& context);

// In which dtype an op computes on values of this one: on the CPU f32 for 16-bit ones, otherwise their own.
inline DType work_dtype(DType dtype, const Context& context) {
  return !context.on_gpu() && (dtype == DType::bf16 || dtype == DType::f16) ? DType::f32 : dtype;
}
// Of parameters and tables beside such values: f32, for definitions f64.
inline DType parameter_dtype(DType dtype) { return dtype == DType::f64 ? dtype : DType::f32; }

// A parameter as the ops read it: contiguous, f32 or f64. Not given stays not given.
inline Tensor parameter(const Tensor& t, DType value, Context& context) {
  return t.defined() ? contiguous_as(t, parameter_dtype(value), context) : t;
}

// The weight and bias of a norm as the kernels over rows read them: as they lie where they are contiguous and of the dtype
// that x and y share, on a GPU; otherwise as `parameter`.
struct Affine {
  Tensor weight, bias;
  Affine(const Tensor& w, const Tensor& b, const Tensor& x, const Tensor& y, Context& context) {
    const auto own = [&](const Tensor& t) { return !t.defined() || (t.dtype == x.dtype && t.contiguous()); };
    const bool direct = context.on_gpu() && x.dtype == y.dtype && own(w) && own(b);
    weight = direct ? w : parameter(w, x.dtype, context), bias = direct ? b : parameter(b, x.dtype, context);
  }
};

// The tensor as [M, C] with one stride between rows and none within; not defined where its strides do not allow it.
Tensor as_rows(const Tensor& t);

// Values rounded to `dtype` and back, in place: where a module stores an intermediate result that we keep in f32. The
// tensor is [M, C] f32 on the CPU.
void round_through(const Tensor& t, DType dtype, Context& context);
// The same, and each row times `weight` behind it: the end of a norm whose module rounds before its weight.
void round_and_weigh(const Tensor& t, DType dtype, const Tensor& weight, Context& context);

}  // namespace tachy::python
