// The matrix W [out, in] of a linear layer in the form in which it is kept. A layer's file may hold it in
// several parts, one below another (q, k and v as one product). Each form is one file, weight_NAME.cpp, which
// defines a class for itself and the function that makes it; make_weight picks among them:
//
//   mapped   where it lies in the file, in the file's dtype: no memory of its own
//   packed   a copy in the order in which the CPU's products read it
//   dense    a copy in the activations' dtype, where the stream computes: what a GPU's products read
//   stacked  any of the others, a product a part
//
// A form with scales (fp8, int8, blocks of GGUF) keeps them beside its values and calls its own product.
#pragma once

#include <memory>
#include <span>

#include "nn/params.h"
#include "ops/gemm/gemm.h"

namespace tachy::nn {

class WeightForm {
 public:
  virtual ~WeightForm() = default;
  virtual const char* name() const = 0;
  virtual int64_t out() const = 0;
  virtual int64_t in() const = 0;
  // All of `args` but the weight is given: x [M, in] → y [M, out].
  virtual void product(ops::GemmArgs args, Stream& stream) const = 0;
};
using WeightPtr = std::unique_ptr<const WeightForm>;

// `parts`: tensors of the file, [out, in] each, all with the same `in`.
WeightPtr make_weight(std::span<const Tensor> parts, ParamStore& store);

WeightPtr make_mapped_weight(const Tensor& weight);
WeightPtr make_packed_weight(std::span<const Tensor> parts, ParamStore& store);  // of one dtype
WeightPtr make_dense_weight(std::span<const Tensor> parts, ParamStore& store);
WeightPtr make_stacked_weight(std::vector<WeightPtr> parts);

}  // namespace tachy::nn
