// Linear layer a → b: weight [b, a] of the checkpoint, bias [b] or none, the op's epilogue.
#pragma once

#include <string_view>

#include "nn/params.h"
#include "ops/gemm/gemm.h"
#include "weights/scope.h"

namespace tachy::nn {

// What happens to x·Wᵀ + bias before it is stored; see ops/gemm/gemm.h.
struct Epilogue {
  ops::Activation act = ops::Activation::none;
  Tensor multiply, gate, row, residual;
};

struct Linear {
  Tensor weight;  // [out, in], file dtype, in the mapped file
  Tensor packed;  // or undefined
  Tensor bias;    // [out] f32 or undefined

  Linear() = default;
  Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias = true);
  // A weight whose file shape has more dims (a convolution whose kernel equals its stride): [out, …] read as
  // [out, in].
  static Linear from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims);

  // x [M, in] → y [M, out], both f32, rows may be strided.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;
};

}  // namespace tachy::nn
