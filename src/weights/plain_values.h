// Handles tensors of dtypes with which no model computes. float64 is narrowed to float32, once, while it is
// read. A weight of whole numbers throws an error with the file and the tensor when a model asks for it.
#pragma once

#include <memory>
#include <string_view>

#include "weights/tensor_source.h"

namespace tachy {

// Says whether a tensor with this name is a weight, in any naming. Settings and counts beside weights may be
// whole numbers.
bool is_weight_name(std::string_view name);

// Returns the same source if it has no such tensors.
std::shared_ptr<TensorSource> plain_values(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
