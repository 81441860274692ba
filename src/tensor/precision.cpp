#include "tensor/precision.h"

#include "base/error.h"

namespace tachy {
namespace {

const char* compute_name(Compute compute) { return compute == Compute::bf16 ? "bf16" : "f32"; }

}  // namespace

void expect_same_weights(const char* what, const Precision& built, const Precision& given) {
  check(
      built.same_weights(given), ErrorCode::internal,
      "{}: its weights were made for activations in {} and products in {}, and the stream asks for {} and {}",
      what, dtype_name(built.activation), compute_name(built.compute), dtype_name(given.activation),
      compute_name(given.compute));
}

void expect_same_products(const char* what, const Precision& built, const Precision& given) {
  check(weights_of(built.products) == weights_of(given.products), ErrorCode::internal,
        "{}: its weights were made for other products than the stream asks for", what);
}

}  // namespace tachy
