// Low-rank adapters of a model's linear layers, which belong to a run and not to the model:
//   y = epilogue(x·Wᵀ + bias + Σ scale_i·(x·A_iᵀ)·B_iᵀ),   A_i [r_i, in], B_i [out, r_i]
// A run makes a set of the adapters that it wants and hands it to its stream (Stream::adapters). The model,
// which other runs may be using, does not change; a stream without a set pays for one branch per layer.
// nn/adapted_linear.h tells how one product applies its adapters.
//
// Memory is taken in the order of the model's layers. On a device, another set for the same layers and about
// the same ranks, made over the same BufferShelf, finds the same addresses, so that steps recorded with this
// set compute with the other one (layout()).
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/adapted_linear.h"
#include "nn/linear_registry.h"
#include "tensor/adapters.h"

namespace tachy::nn {

struct LowRank {
  std::string layer;  // its name in the registry: blocks.3.attn1.to_q
  Tensor a, b;        // [r, in] and [out, r], on the host, any float dtype; not needed once the set is made
  float scale = 1;
};

class AdapterSet final : public Adapters {
 public:
  // Takes its memory from the store, in the activations' dtype of the store's stream; for layers that compute
  // on the host beside a GPU, from store.beside(). Throws `not_found`, with the nearest names, for a layer
  // that the model does not have, and `invalid_argument`, naming layer and shapes, for an adapter that does
  // not fit. `model` is its name, such as "transformer".
  AdapterSet(std::span<const LowRank> adapters, const LinearRegistry& linears, std::string_view model,
             ParamStore& store);

  // The stream's set; null if it has none.
  static const AdapterSet* of(const Stream& stream) {
    return static_cast<const AdapterSet*>(stream.adapters);
  }
  const AdaptedLinear* find(const Linear& linear) const;
  // Sets new scales for its adapters, in their order. Everything else stays as it was.
  void set_scales(std::span<const float> scales, Stream& stream);
  size_t size() const { return adapters_; }
  // Whether it was made for the layers of this model, and the model has not been loaded anew since.
  bool made_for(const LinearRegistry& linears) const;

 private:
  struct Row {
    int64_t adapter;  // -1: none, for a row of zeros
    float factor;
  };
  // The scales of all rows of all stacked A, one after another, for the layers that compute on one side
  // (device or host).
  struct Scales {
    Tensor values;
    std::vector<Row> rows;
  };

  size_t adapters_;
  std::unordered_map<const void*, AdaptedLinear> layers_;  // keyed by Linear::id
  std::array<Scales, 2> scales_;                           // on the store's device, and on the host beside it
};

// Throws `internal` if the stream's adapters are not for this model: they would be left out silently.
void expect_own_adapters(std::string_view model, const Stream& stream, const LinearRegistry& linears);

}  // namespace tachy::nn
