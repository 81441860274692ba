// A linear layer a → b with a weight [b, a] of the checkpoint, an optional bias [b], and the product's
// epilogue. It has the checkpoint's name (blocks.3.attn1.to_q). Several layers with the same input may be
// joined as parts of one product; their outputs are then adjacent columns of y.
//
// A Linear is a handle, and its copies are the same layer. If a stream has adapters for the layer
// (nn/adapter_set.h), their result is added before the epilogue.
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

// Rows of x in the form that a product in 8 bits reads.
struct RowCodes {
  Tensor values, scale;  // [M, in] f8_e4m3 or i8, and [M] f32
  bool defined() const { return values.defined(); }
  RowCodes slice(int64_t begin, int64_t end) const {
    return {values.slice(0, begin, end), scale.slice(0, begin, end)};
  }
};

// The steps between x·Wᵀ + bias and the stored result; see ops/gemm/gemm.h.
struct Epilogue {
  ops::Activation act = ops::Activation::none;
  Tensor multiply, gate, row, residual;
};

class Linear {
 public:
  struct Part {
    std::string name;
    int64_t first, rows;  // range of the product's columns
  };

  Linear() = default;
  Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias = true);
  // Takes a weight that has more dims in the file, such as a convolution whose kernel is as wide as its
  // stride: [out, …] is read as [out, in].
  static Linear from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims,
                            bool has_bias = true);
  // Joins several layers with the same input and size into one product. If their weights stay in a mapped
  // file, there is one product per part, and the bits are the same.
  static Linear joined(std::span<const Scope> scopes, ParamStore& store, int64_t in, int64_t out_each,
                       bool has_bias = true);
  // Takes a weight whose values are computed from those in the file, and keeps it in the form that suits the
  // store. The bias may be undefined.
  static Linear from_part(const Scope& scope, const WeightPart& weight, const Tensor& bias,
                          ParamStore& store);
  // Takes a weight and a bias that the caller has computed for the layer at `scope`. They are float32 on the
  // host and need not outlive the call.
  static Linear from_host(const Scope& scope, const Tensor& weight, const Tensor& bias, ParamStore& store);

  // Computes x [M, in] → y [M, out], whose rows may be strided. On the CPU both are f32. On a GPU x has the
  // activations' dtype, and y has that dtype or f32.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;

  // Does the same for an x that is already rounded as the product would round it. Requires takes_codes().
  void operator()(const RowCodes& x, const Tensor& y, Stream& stream, const Epilogue& epilogue = {}) const;
  // Says whether the layer multiplies codes of `dtype` and has no adapters on this stream.
  bool takes_codes(DType dtype, const Stream& stream) const;

  // Returns the product's arguments without the weight, which the weight's form adds.
  ops::GemmArgs arguments(const Tensor& x, const Tensor& y, const Epilogue& epilogue) const;
  const WeightForm& weight() const;

  bool defined() const { return layer_ != nullptr; }
  int64_t in() const;
  int64_t out() const;
  bool on_gpu() const;       // says whether its products run on a GPU
  const char* form() const;  // name of its weight's form
  // The same for all handles of a layer, and different from all other layers that exist at the same time.
  const void* id() const { return layer_.get(); }
  std::span<const Part> parts() const;

 private:
  struct Layer;
  Linear(std::vector<Part> parts, std::unique_ptr<const WeightForm> weight, std::span<const Tensor> biases,
         ParamStore& store);

  std::shared_ptr<const Layer> layer_;
};

}  // namespace tachy::nn
