// The precision in which a model computes. It is fixed when the model is built, because
// the weights are made for it.
#pragma once

#include "tensor/dtype.h"

namespace tachy {

// The precision in which products (linear layers, convolutions, attention) multiply on the CPU. Their sums,
// and all other ops there, use float32 in both cases.
enum class Compute { f32, bf16 };

// The precision in which linear layers multiply. as_activations: the precision of the activations. tf32: on a
// GPU with float32 activations, operands are rounded to TF32 (10 bits after the point and float32's range),
// and sums stay float32. e4m3, int8: the large layers of a transformer's blocks use 8 bits, with a scale per
// row of the weight and per row of the activations.
enum class Products { as_activations, e4m3, int8, tf32 };

// Says whether weights are made in 8 bits for these products.
constexpr bool in_eight_bits(Products p) { return p == Products::e4m3 || p == Products::int8; }
// Operands are rounded to TF32 only inside the product, so the weights are those of any float32 run.
constexpr Products weights_of(Products p) { return in_eight_bits(p) ? p : Products::as_activations; }

struct Precision {
  // Dtype of a model's activations, and on a GPU also of its weights; always float32 on the CPU.
  DType activation = DType::f32;
  // Dtype of a transformer's residual stream: float32, or the activations' dtype.
  DType residual = DType::f32;
  Compute compute = Compute::f32;  // precision of products on the CPU
  bool definitions = false;        // every op runs its reference definition
  // Lets a transformer's self-attention round to 8 bits (AttentionArgs::eight_bits). This needs a GPU from
  // compute capability 8.0 on, and bf16 activations.
  bool attention_int8 = false;
  Products products = Products::as_activations;
  // The matrices of a transformer's self-attention for q, k and v are stored as one when it is loaded.
  bool joined = true;
  bool operator==(const Precision&) const = default;

  // Says whether weights made for one precision can be used in the other. They do not depend on the residual
  // stream, on attention or on what computes the products. A transformer's weights also need the same
  // products.
  bool same_weights(const Precision& other) const {
    return activation == other.activation && compute == other.compute;
  }
};

// Throws `internal` unless weights that were made for `built` can be used in `given`; `what` names the model.
void expect_same_weights(const char* what, const Precision& built, const Precision& given);
// Does the same, and also requires the same `products`.
void expect_same_products(const char* what, const Precision& built, const Precision& given);

}  // namespace tachy
