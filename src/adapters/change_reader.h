// Turns one layer of an adapter's file into the changes that it makes to a target's tensors.
#pragma once

#include "adapters/match.h"

namespace tachy {

struct LayerChanges {
  std::vector<std::shared_ptr<const WeightChange>> changes;
  int64_t zero = 0;
  std::string reason;  // why the layer does not fit; there are no changes then
};

LayerChanges read_layer(const AdapterFile& file, const AdapterLayer& layer, const AdapterTarget& target);

}  // namespace tachy
