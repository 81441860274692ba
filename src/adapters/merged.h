// A model's tensors with adapters merged into them: made in float32 whenever they are read, and rounded once where the
// file has 16 bits.
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
  std::shared_ptr<const TensorSource> file;  // that the change's tensors lie in
};

// `base`, with those tensors that `changes` name replaced. The changes of a tensor are applied in the order
// given. Its files are base's and the adapters'.
std::shared_ptr<TensorSource> merged_source(const std::shared_ptr<TensorSource>& base,
                                            const std::vector<WeightedChange>& changes);

}  // namespace tachy
