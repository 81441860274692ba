// Low-rank adapters of a model's linear layers, which belong to a run and not to the model:
//   y = epilogue(x·Wᵀ + bias + Σ scale_i·(x·A_iᵀ)·B_iᵀ),   A_i [r_i, in], B_i [out, r_i]
// A run makes a set of those that it wants and hands it to its stream (Stream::adapters). The model, which
// other runs may be using, does not change; a stream without a set pays a branch a layer. How one product takes its
// adapters is told by nn/adapted_linear.h.
//
// Memory is taken in the order of the model's layers. On a device another set of the same layers and about the same
// ranks, made over the same BufferShelf, finds the same addresses: what was recorded with this one then computes
// with the other (layout()).
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
  // Its memory is the store's, in the activations' dtype of the store's stream; that of layers which compute
  // on the host beside a GPU is store.beside()'s. Throws not_found with near names for a layer that the model
  // has not got, and invalid_argument, naming layer and shapes, for what does not fit.
  // `model`: "transformer".
  AdapterSet(std::span<const LowRank> adapters, const LinearRegistry& linears, std::string_view model,
             ParamStore& store);

  // The stream's; null: it has none.
  static const AdapterSet* of(const Stream& stream) {
    return static_cast<const AdapterSet*>(stream.adapters);
  }
  const AdaptedLinear* find(const Linear& linear) const;
  // New scales of the adapters that it was made of, in their order; of all else it is as it was.
  void set_scales(std::span<const float> scales, Stream& stream);
  size_t size() const { return adapters_; }
  // Whether the layers that it adds to are this model's, which was not loaded anew since.
  bool made_for(const LinearRegistry& linears) const;

 private:
  struct Row {
    int64_t adapter;  // -1: none, a row of zeros
    float factor;
  };
  // Of the layers that compute on one side: scales of all rows of all stacked A, one after another.
  struct Scales {
    Tensor values;
    std::vector<Row> rows;
  };

  size_t adapters_;
  std::unordered_map<const void*, AdaptedLinear> layers_;  // by Linear::id
  std::array<Scales, 2> scales_;                           // on the store's device, and on the host beside it
};

// Throws internal when the stream's adapters are not for this model: they would be left out silently.
void expect_own_adapters(std::string_view model, const Stream& stream, const LinearRegistry& linears);

}  // namespace tachy::nn
