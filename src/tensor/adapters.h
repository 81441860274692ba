// The adapters that a run adds to the products of a model's linear layers, carried by its
// stream. nn/adapter_set.h makes them, and only nn/ looks inside. The model itself does not
// change for others that use it.
#pragma once

#include <cstdint>
#include <vector>

namespace tachy {

class Adapters {
 public:
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;
  // Everything that a recorded step of this model depends on: which layers, where their matrices lie, their
  // shapes. Sets with the same layout may replace one another in it.
  const std::vector<uint64_t>& layout() const { return layout_; }

 protected:
  Adapters() = default;
  ~Adapters() = default;

  std::vector<uint64_t> layout_;
};

}  // namespace tachy
