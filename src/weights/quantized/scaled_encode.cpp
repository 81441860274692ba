#include "weights/quantized/scaled_encode.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tachy {

float largest_magnitude(std::span<const float> values) {
  uint32_t most = 0;  // magnitudes have the order of their bits, with infinity and NaN above all others
  for (const float value : values) most = std::max(most, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  return std::bit_cast<float>(most);
}

// A matrix of zeros may have any scale.
float e4m3_scale(float largest) {
  const float scale = largest / 448;
  return scale > 0 ? scale : 1;
}

float int8_scale(float largest) { return std::max(largest, 1e-5f) / 127; }

void encode_e4m3(std::span<const float> values, float scale, uint8_t* to) {
  for (const float value : values) *to++ = to_f8_e4m3(std::clamp(value / scale, -448.0f, 448.0f)).bits;
}

void encode_int8(std::span<const float> values, float scale, int8_t* to) {
  for (const float value : values)
    *to++ = static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), -128.0f, 127.0f));
}

}  // namespace tachy
