// The values of any tensor of a file as float32, a piece at a time, in whatever form they are stored.
#pragma once

#include <cstdint>
#include <span>

#include "weights/tensor_source.h"

namespace tachy {

int64_t value_count(const TensorSource::Entry& entry);
// Says whether the tensor has such values: floats of any size, or values that are made of something else.
bool has_values(const TensorSource::Entry& entry);

// Reads values [begin, begin + to.size()) of the tensor. May be called from several threads at once.
void entry_values(const TensorSource::Entry& entry, int64_t begin, std::span<float> to);

// Writes `count` values into memory that holds float32, bfloat16, float16, f8_e4m3 or int8, rounded once to
// nearest. `to` is aligned.
void store_values(const float* from, int64_t count, DType dtype, void* to);

}  // namespace tachy
