// The values of an adapter's tensors as its changes use them.
#pragma once

#include <deque>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

// Returns a view of the file if its dtype can be widened exactly. Other values (float64, codes with scales,
// blocks of GGUF) are rounded once to float32 and kept in `made`. Throws corrupt for NaN and infinity, and
// unsupported for whole numbers, with the file and the tensor.
Tensor layer_values(const TensorSource& source, const TensorSource::Entry& entry,
                    std::deque<std::vector<float>>& made);

}  // namespace tachy
