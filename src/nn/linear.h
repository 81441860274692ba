// Linear layer a → b: weight [b, a] of the checkpoint, bias [b] or none, the op's epilogue. It has the name
// that it has in the checkpoint (blocks.3.attn1.to_q); several layers of one input may be joined, and then are
// parts of one product: their outputs lie after each other in y's columns.
//
// A Linear is a handle: its copies are the same layer. What a stream's adapters (nn/adapter_set.h) add to the
// layer is added before the epilogue.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/params.h"
#include "ops/gemm/gemm.h"
#include "weights/scope.h"

namespace tachy::nn {

class WeightForm;  // nn/weight_form.h

// Rows as a product in 8 bits reads them.
struct RowCodes {
  Tensor values, scale;  // [M, in] f8_e4m3 or i8, and [M] f32
  bool defined() const { return values.defined(); }
  RowCodes slice(int64_t begin, int64_t end) const {
    return {values.slice(0, begin, end), scale.slice(0, begin, end)};
  }
};

// What happens to x·Wᵀ + bias before it is stored; see ops/gemm/gemm.h.
struct Epilogue {
  ops::Activation act = ops::Activation::none;
  Tensor multiply, gate, row, residual;
};

class Linear {
 public:
  struct Part {
    std::string name;
    int64_t first, rows;  // of the product's columns
  };

  Linear() = default;
  Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias = true);
  // A weight whose file shape has more dims (a convolution whose
  // kernel equals its stride): [out, …] read as [out, in].
  static Linear from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims,
                            bool has_bias = true);
  // Several layers of one input and the same size as one product. Where their weights lie in a mapped file it
  // is one product a part, with the same bits.
  static Linear joined(std::span<const Scope> scopes, ParamStore& store, int64_t in, int64_t out_each,
                       bool has_bias = true);
  // A weight that is made of the file's values in another way than theirs, in the form that suits the store; the
  // bias may be undefined.
  static Linear from_part(const Scope& scope, const WeightPart& weight, const Tensor& bias,
                          ParamStore& store);
  // What the caller made of the layer at `scope`: float32 on the host, not needed afterwards.
  static Linear from_host(const Scope& scope, const Tensor& weight, const Tensor& bias, ParamStore& store);

  // x [M, in] → y [M, out], rows may be strided; f32 on the CPU, on a GPU x in the activations' dtype, y in
  // it or f32.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;

  // The same of an x that somebody has rounded as the product would round it. Only where takes_codes().
  void operator()(const RowCodes& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;
  // Whether the layer multiplies codes of `dtype`, and has no adapters on this stream.
  bool takes_codes(DType dtype, const Stream& stream) const;

  // The product's arguments, for which the weight's form picks a weight.
  ops::GemmArgs arguments(const Tensor& x, const Tensor& y, const Epilogue& epilogue) const;
  const WeightForm& weight() const;

  bool defined() const { return layer_ != nullptr; }
  int64_t in() const;
  int64_t out() const;
  bool on_gpu() const;       // whether its products run there
  const char* form() const;  // of its weight
  // The same for all handles of a layer, and no other layer's as long as one of them lives.
  const void* id() const { return layer_.get(); }
  std::span<const Part> parts() const;

 private:
  struct Layer;
  Linear(std::vector<Part> parts, std::unique_ptr<const WeightForm> weight, std::span<const Tensor> biases,
         ParamStore& store);

  std::shared_ptr<const Layer> layer_;
};

}  // namespace tachy::nn
