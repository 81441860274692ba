// Low-rank adapters of a model's linear layers, which belong to a run and not to the model:
//   y = epilogue(x·Wᵀ + bias + Σ scale_i·(x·A_iᵀ)·B_iᵀ),   A_i [r_i, in], B_i [out, r_i]
// A run makes a set of those that it wants and hands it to its stream (Stream::adapters). The model, which
// other runs may be using, does not change; a stream without a set pays a branch a layer.
//
// All adapters of one product read x together: their A lie one below another, with their scales in them.
// Those of one layer are added in one product, their B side by side, in the order in which they were given.
// Layers that are joined have adapters of their own, which are added to their columns. A rank is filled up
// with zeros to a multiple of 8, so that all rows begin where a GPU's products like them to.
//
// What is linear in an epilogue takes the sum in two products; an activation is a pass of its own after them.
// Products read and write the activations' dtype, so there, as in PyTorch, what enters the activation is
// rounded.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "nn/linear_registry.h"

namespace tachy::nn {

struct LowRank {
  std::string layer;  // its name in the registry: blocks.3.attn1.to_q
  Tensor a, b;        // [r, in] and [out, r], on the host, any float dtype; not needed once the set is made
  float scale = 1;
};

// One product with what is added to it.
class AdaptedLinear {
 public:
  // parts[i]: the adapters of linear.parts()[i].
  using PartAdapters = std::vector<std::vector<const LowRank*>>;
  AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store);

  const Linear& linear() const { return linear_; }
  // As Linear's; scratch for x·Aᵀ comes from the stream's arena.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const;

 private:
  struct Part {
    int64_t first, columns;  // of y
    int64_t from, rank;      // of the columns of x·Aᵀ
    Tensor b;                // [columns, rank]
  };
  void add(const Tensor& low, const Tensor& y, const Epilogue& epilogue, Stream& stream) const;

  Linear linear_;
  Tensor a_;  // [Σ rank, in]
  std::vector<Part> parts_;
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
  // Whether the layers that it adds to are this model's, which was not loaded anew since.
  bool made_for(const LinearRegistry& linears) const;

 private:
  std::unordered_map<const void*, AdaptedLinear> layers_;  // by Linear::id
};

// Throws internal when the stream's adapters are not for this model: they would be left out silently.
void expect_own_adapters(std::string_view model, const Stream& stream, const LinearRegistry& linears);

}  // namespace tachy::nn
