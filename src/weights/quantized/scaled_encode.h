// Encodes weights as 8 bits with scales, as torch computes them in float32:
//
//   e4m3, a scale for the tensor    s = max|w| / 448              q = e4m3(clamp(w / s, ±448))
//   int8, a scale for a row         s = max(max|w|, 1e-5) / 127   q = round(w / s), halves to even
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace tachy {

// Returns the largest magnitude, which is infinity or NaN if any value is.
float largest_magnitude(std::span<const float> values);

float e4m3_scale(float largest);
float int8_scale(float largest);
void encode_e4m3(std::span<const float> values, float scale, uint8_t* to);
void encode_int8(std::span<const float> values, float scale, int8_t* to);

}  // namespace tachy
