// Linear layer a → b: weight [b, a] of the checkpoint, bias [b] or none, the op's epilogue.
#pragma once

#include <span>
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
  Tensor weight;    // [out, in]: in the mapped file, in its dtype; on a GPU: there, in the activations' dtype
  Tensor packed;    // or undefined
  Tensor bias;      // [out] f32 or undefined
  Tensor low_bias;  // on a GPU: the bias in the activations' dtype (a product's epilogue wants its output's)

  Linear() = default;
  Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias = true);
  // A weight whose file shape has more dims (a convolution whose
  // kernel equals its stride): [out, …] read as [out, in].
  static Linear from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims);
  // Several layers of one input as one product: their outputs lie after each other in y's columns. On a GPU
  // only: elsewhere weights are used where they lie in the file.
  static Linear joined(std::span<const Scope> scopes, ParamStore& store, int64_t in, int64_t out_each);
  // weight and bias f32 that the caller made on the host.
  static Linear from_host(const Tensor& weight, const Tensor& bias, ParamStore& store);

  // x [M, in] → y [M, out], rows may be strided; f32 on the CPU, on a GPU x in the activations' dtype, y in
  // it or f32.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;

 private:
  void place(const Tensor& source, ParamStore& store);
  void place_bias(const Tensor& source, ParamStore& store);
};

}  // namespace tachy::nn
