// Low-rank adapters of a model's linear layers, which belong to a run and not to the model:
//   y = epilogue(x·Wᵀ + bias + Σ scale_i·(x·A_iᵀ)·B_iᵀ),   A_i [r_i, in], B_i [out, r_i]
// A run makes a set of its adapters and gives it to its stream (Stream::adapters). The model does not change,
// since other runs may be using it; a stream without a set pays for one branch per layer. nn/adapted_linear.h
// tells how a product applies its adapters.
//
// Memory is taken in the order of the model's layers. If another set for the same layers and about the same
// ranks uses the same BufferShelf on a device, it gets the same addresses. Steps that were recorded with one
// set then work with the other (layout()).
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
  Tensor a, b;        // [r, in] and [out, r], on the host, any float dtype; not needed once the set exists
  float scale = 1;
};

class AdapterSet final : public Adapters {
 public:
  // Takes its memory from the store, in the activations' dtype of the store's stream; for layers that compute
  // on the host beside a GPU, from store.beside(). `model` is its name, such as "transformer". Throws
  // `not_found`, with the nearest names, for a layer that the model lacks, and `invalid_argument`, with layer
  // and shapes, for an adapter that does not fit.
  AdapterSet(std::span<const LowRank> adapters, const LinearRegistry& linears, std::string_view model,
             ParamStore& store);

  // Returns the stream's set, or null if it has none.
  static const AdapterSet* of(const Stream& stream) {
    return static_cast<const AdapterSet*>(stream.adapters);
  }
  const AdaptedLinear* find(const Linear& linear) const;
  // Sets a new scale for each adapter, in the adapters' order, and changes nothing else.
  void set_scales(std::span<const float> scales, Stream& stream);
  size_t size() const { return adapters_; }
  // Says whether the set was made for the layers of this model, which has not been reloaded since.
  bool made_for(const LinearRegistry& linears) const;

 private:
  struct Row {
    int64_t adapter;  // -1 for a row of zeros, which has no adapter
    float factor;
  };
  // The scales of all rows of all stacked A matrices, one after another, for the layers on one side (device
  // or host).
  struct Scales {
    Tensor values;
    std::vector<Row> rows;
  };

  size_t adapters_;
  std::unordered_map<const void*, AdaptedLinear> layers_;  // keyed by Linear::id
  std::array<Scales, 2> scales_;                           // on the store's device, and on the host beside it
};

// Throws `internal` if the stream's adapters are not for this model, since they would silently have no
// effect.
void expect_own_adapters(std::string_view model, const Stream& stream, const LinearRegistry& linears);

}  // namespace tachy::nn
