// The matrix W [out, in] of a linear layer, in one of several forms. A layer's file may hold it in several
// parts, stacked (q, k and v as one product). Each form has its own file, weight_NAME.cpp, with its class and
// the function that makes it; make_weight chooses the form:
//
//   mapped   stays in the file, in the file's dtype: no memory of its own
//   packed   a copy in the order in which the CPU's products read it
//   dense    a copy in the activations' dtype, where the stream computes, as a GPU's products read it
//   derived  kept as the source of its values (blocks of GGUF, 8-bit values with scales, a merged adapter); a
//            product makes slabs of values as it needs them
//   stored   on a GPU, as in the file: blocks of GGUF, or 8-bit values with or without scales. Each product
//            first makes the whole matrix in scratch
//   visiting stays in the file; on a GPU each product copies it there, into scratch
//   scaled   codes of 8 bits with a scale per row: products round x in the same way
//   stacked  any of the others, one product per part
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "nn/linear.h"
#include "nn/params.h"
#include "ops/gemm/gemm.h"
#include "weights/scope.h"

namespace tachy::nn {

class WeightForm {
 public:
  virtual ~WeightForm() = default;
  virtual const char* name() const = 0;
  virtual int64_t out() const = 0;
  virtual int64_t in() const = 0;
  // Computes x [M, in] → y [M, out]. `args` contains everything except the weight.
  virtual void product(ops::GemmArgs args, Stream& stream) const = 0;

  // The functions that adapters beside the weight (nn/adapted_linear.h) use, if a form supports them.
  //
  // matrix() returns the whole matrix where the stream computes, in the activations' dtype. It is the form's
  // own, or a copy in the arena's scratch, which the caller may overwrite.
  struct Matrix {
    Tensor values;  // [out, in]
    bool scratch = false;
  };
  virtual bool has_matrix() const { return false; }
  virtual Matrix matrix(Stream& stream) const;
  // codes_of rounds x [M, in] to 8 bits (code_dtype()) in scratch, as a product does. product_of multiplies
  // the codes: it does not read args.x, and it adds args.residual before the activation.
  using Codes = RowCodes;
  virtual std::optional<DType> code_dtype() const { return std::nullopt; }
  virtual Codes codes_of(const Tensor& x, Stream& stream) const;
  virtual void product_of(const Codes& x, const ops::GemmArgs& args, Stream& stream) const;

 protected:
  // Returns a product's arguments restricted to columns [first, end) of y.
  static ops::GemmArgs columns_of(const ops::GemmArgs& args, int64_t first, int64_t end);
};
using WeightPtr = std::unique_ptr<const WeightForm>;

// How a model uses a layer (ParamStore::set_eight_bits, set_visiting).
struct WeightUse {
  bool eight_bits = false;  // it multiplies in the stream's Precision::products
  bool visiting = false;    // it is used only a few times in a run
};

// Each part is [out, in], and all have the same `in`.
WeightPtr make_weight(std::span<const WeightPart> parts, ParamStore& store, const WeightUse& use = {});

WeightPtr make_mapped_weight(const Tensor& weight);
WeightPtr make_derived_weight(const WeightPart& weight);
WeightPtr make_packed_weight(std::span<const WeightPart> parts, ParamStore& store);  // of one dtype
WeightPtr make_dense_weight(std::span<const WeightPart> parts, ParamStore& store);
WeightPtr make_scaled_weight(std::span<const WeightPart> parts, ParamStore& store);
// Returns null if a part is stored in another way, or if the GPU has no kernel for its blocks.
WeightPtr make_stored_weight(std::span<const WeightPart> parts, ParamStore& store);
// Needs a stream with a device's memory. Returns null for small weights, and for weights that the file does
// not hold as plain values.
WeightPtr make_visiting_weight(std::span<const WeightPart> parts, ParamStore& store);
WeightPtr make_stacked_weight(std::vector<WeightPtr> parts);

// Keeps the weight in the file, or as the source of its values.
WeightPtr make_unpacked_weight(const WeightPart& weight);

}  // namespace tachy::nn
