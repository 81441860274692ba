// Reads the values of any tensor of a file as float32, piece by piece, in whatever form they are stored.
#pragma once

#include <cstdint>
#include <span>

#include "weights/tensor_source.h"

namespace tachy {

int64_t value_count(const TensorSource::Entry& entry);
// Says whether the tensor has such values: floats of any size, or values that are derived from something
// else.
bool has_values(const TensorSource::Entry& entry);

// Reads values [begin, begin + to.size()) of the tensor. Several threads may call this at once.
void entry_values(const TensorSource::Entry& entry, int64_t begin, std::span<float> to);

// Writes `count` values into aligned memory as float32, bfloat16, float16, f8_e4m3 or int8, rounded once to
// nearest.
void store_values(const float* from, int64_t count, DType dtype, void* to);

}  // namespace tachy
