// The precision in which a model computes. It is fixed when the model is built, because
// the weights are made for it.
#pragma once

#include "tensor/dtype.h"

namespace tachy {

// The precision in which products (linear layers, convolutions, attention) multiply on the CPU. Sums are
// float32 either way, and so is everything else there.
enum class Compute { f32, bf16 };

// The precision in which linear layers multiply: that of the activations; on a GPU with float32 activations,
// operands rounded to TF32 (10 binary digits after the point, as f16 has, and float32's range; sums stay
// float32); or, for the large layers of a transformer's blocks, 8 bits, with a scale per row of the weight
// and per row of the activations.
enum class Products { as_activations, e4m3, int8, tf32 };

// Whether weights are made in 8 bits for these products.
constexpr bool in_eight_bits(Products p) { return p == Products::e4m3 || p == Products::int8; }
// TF32's operands are rounded on their way into the product, from the same weights as in any float32 run.
constexpr Products weights_of(Products p) { return in_eight_bits(p) ? p : Products::as_activations; }

struct Precision {
  // Dtype of a model's activations, and of its weights on a GPU; float32 on the CPU.
  DType activation = DType::f32;
  // Dtype of a transformer's residual stream: float32, or that of the activations.
  DType residual = DType::f32;
  Compute compute = Compute::f32;  // precision of products on the CPU
  bool definitions = false;        // every op runs its definition
  // Lets a transformer's self-attention round to 8 bits (AttentionArgs::eight_bits); needs
  // Hopper and bf16 activations.
  bool attention_int8 = false;
  Products products = Products::as_activations;
  // q, k and v of a transformer's self-attention are one matrix, laid out when it is loaded.
  bool joined = true;
  bool operator==(const Precision&) const = default;

  // Whether weights made for one serve the other. They do not depend on the residual stream, on attention or
  // on what computes the products. A transformer's weights also require the same products.
  bool same_weights(const Precision& other) const {
    return activation == other.activation && compute == other.compute;
  }
};

// Throws `internal` unless weights that were made for `built` serve a run in `given`; `what` names the model.
void expect_same_weights(const char* what, const Precision& built, const Precision& given);
// The same for layers that multiply in `products`.
void expect_same_products(const char* what, const Precision& built, const Precision& given);

}  // namespace tachy
