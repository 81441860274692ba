// In which numbers a model computes: fixed when it is built, for its weights are made for it.
#pragma once

#include "tensor/dtype.h"

namespace tachy {

// What products (linear layers, convolutions, attention) multiply in on the CPU. Sums are float32 either way,
// and so is everything else there.
enum class Compute { f32, bf16 };

// What linear layers multiply in: numbers of the activations' kind; on a GPU, where those are float32, operands
// rounded to TF32 (10 binary digits behind the point, as f16 has, and float32's range; sums stay float32); or, the
// large ones of a transformer's blocks, 8 bits, with a scale a row of the weight and a row of the activations.
enum class Products { as_activations, e4m3, int8, tf32 };

// Whether weights are made in 8 bits for them.
constexpr bool in_eight_bits(Products p) { return p == Products::e4m3 || p == Products::int8; }
// TF32's operands are rounded on their way into the product, from the weights that any float32 run has.
constexpr Products weights_of(Products p) { return in_eight_bits(p) ? p : Products::as_activations; }

struct Precision {
  DType activation = DType::f32;  // of a model's activations, and of its weights on a GPU; float32 on the CPU
  DType residual = DType::f32;    // of a transformer's residual stream: float32, or as the activations
  Compute compute = Compute::f32;  // of products on the CPU
  bool definitions = false;        // every op runs its definition
  // A transformer's self-attention may round to 8 bits (AttentionArgs::eight_bits); Hopper, bf16 activations.
  bool attention_int8 = false;
  Products products = Products::as_activations;
  bool joined =
      true;  // q, k and v of a transformer's self-attention are one matrix: they are laid out so when loaded
  bool operator==(const Precision&) const = default;

  // Weights made for one serve the other: they do not depend on the residual stream, on attention or on who
  // multiplies. A transformer's also ask for the same products.
  bool same_weights(const Precision& other) const {
    return activation == other.activation && compute == other.compute;
  }
};

// Throws internal unless weights that were made for `built` serve a run in `given`; `what` names the model.
void expect_same_weights(const char* what, const Precision& built, const Precision& given);
// The same for layers that multiply in `products`.
void expect_same_products(const char* what, const Precision& built, const Precision& given);

}  // namespace tachy
