// Handles tensors whose dtype no model computes with. float64 is narrowed once, to float32, as it is read.
// Whoever asks for a weight that holds whole numbers gets an error, which names the file and the tensor.
#pragma once

#include <memory>
#include <string_view>

#include "weights/tensor_source.h"

namespace tachy {

// Says whether a tensor of this name is a weight, no matter who chose the name. Settings and counts beside
// weights may be whole numbers.
bool is_weight_name(std::string_view name);

// Returns the same source if it has no such tensors.
std::shared_ptr<TensorSource> plain_values(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
