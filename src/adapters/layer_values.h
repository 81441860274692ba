// The values of an adapter's tensors as its changes use them.
#pragma once

#include <deque>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

// Where the file has them, if their dtype is one that is widened exactly when it is used; otherwise (float64, codes with
// scales, blocks of GGUF) float32 values in `made`, each rounded once. Throws, naming file and tensor: corrupt for NaN and
// infinity, unsupported for whole numbers.
Tensor layer_values(const TensorSource& source, const TensorSource::Entry& entry,
                    std::deque<std::vector<float>>& made);

}  // namespace tachy
