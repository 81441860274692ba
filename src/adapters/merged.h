// A model's tensors with adapters merged into them. They are made in float32 whenever they are read, and
// rounded once if the file has 16 bits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adapters/weight_change.h"
#include "weights/tensor_source.h"

namespace tachy {

struct WeightedChange {
  std::shared_ptr<const WeightChange> change;
  double strength = 1;
  std::shared_ptr<const TensorSource> file;  // holds the change's tensors
};

// Returns `base` with changed tensors. The changes of a tensor are applied in the given order. The result has
// the files of `base` and of the adapters.
std::shared_ptr<TensorSource> merged_source(const std::shared_ptr<TensorSource>& base,
                                            const std::vector<WeightedChange>& changes);

}  // namespace tachy
