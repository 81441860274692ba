// The change that one layer of an adapter's file makes to one tensor W of a model, which is seen as [dims[0],
// everything else]:
//
//   low rank     W += s·B·A                                     LoRA
//   full         W += s·D                                       deltas of norms, biases, whole weights
//   replace      W  = D                                         set_weight
//   hadamard     W += s·(B1·A1) ∘ (B2·A2)                       LoHa
//   kronecker    W += s·(W1 ⊗ W2)                               LoKr
//   product      W += s·(W·A1·A2 + B1·B2)                       GLoRA
//   magnitude    W  = m ∘ V / |rows of V|, V being W with one of
//                the four that have a scale                     DoRA
//
// Here s is alpha / rank. A strength other than 1 multiplies the difference that is added.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace tachy {

struct WeightChange {
  enum class Kind { low_rank, full, replace, hadamard, kronecker, product };
  Kind kind = Kind::low_rank;
  std::string tensor;  // its name in the model: blocks.0.attn1.to_q.weight
  int64_t rank = 0;
  double scale = 1;
  std::string scale_from;  // for reports
  // Matrices of any float dtype, which are views of the file: B [out, r] and A [r, in] for low rank; D for
  // full and replace; B1, A1, B2, A2 for hadamard; W1 and W2, each as one matrix or two factors, for
  // kronecker; B1 [out, r], B2 [r, in], A1 [in, r], A2 [r, in] for product.
  Tensor up, down, up_2, down_2;
  Tensor magnitude;                       // [out]
  std::shared_ptr<const void> made = {};  // owns the values that are no view of the file
};

const char* kind_name(const WeightChange& change);

// Changes rows [first, first + rows.dim(0)) of W in place; they are float32.
void apply_change(const WeightChange& change, double strength, int64_t first, const Tensor& rows);

// Returns the squared Frobenius norm of the difference that it adds to W with strength 1, or 0 for kinds that
// depend on W.
double change_norm_squared(const WeightChange& change);

}  // namespace tachy
