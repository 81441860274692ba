// What a run adds to the products of a model's linear layers, as its stream carries it: nn/adapter_set.h makes
// it, and only nn/ looks inside. The model stays as it is for whoever else uses it.
#pragma once

#include <cstdint>
#include <vector>

namespace tachy {

class Adapters {
 public:
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;
  // All that a recorded step of this model depends on: which layers, where their matrices lie, of which shapes. Sets
  // with the same layout may take each other's place in it.
  const std::vector<uint64_t>& layout() const { return layout_; }

 protected:
  Adapters() = default;
  ~Adapters() = default;

  std::vector<uint64_t> layout_;
};

}  // namespace tachy
