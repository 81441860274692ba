// The values of an adapter's tensors as its changes use them.
#pragma once

#include <deque>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

// Returns a view of the file if the dtype is one that is widened exactly when it is used. Otherwise (float64,
// codes with scales, blocks of GGUF) returns float32 values that are kept in `made`, each rounded once.
// Throws corrupt for NaN and infinity and unsupported for whole numbers, naming file and tensor.
Tensor layer_values(const TensorSource& source, const TensorSource::Entry& entry,
                    std::deque<std::vector<float>>& made);

}  // namespace tachy
