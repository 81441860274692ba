// The adapters that a run adds to the products of a model's linear layers. The run's stream carries them;
// nn/adapter_set.h makes them, and only nn/ looks inside. Other users of the model see no change.
#pragma once

#include <cstdint>
#include <vector>

namespace tachy {

class Adapters {
 public:
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;
  // Everything about the adapters that a recorded step depends on: the layers, and the addresses and shapes
  // of their matrices. A recorded step can use any other set with the same layout.
  const std::vector<uint64_t>& layout() const { return layout_; }

 protected:
  Adapters() = default;
  ~Adapters() = default;

  std::vector<uint64_t> layout_;
};

}  // namespace tachy
