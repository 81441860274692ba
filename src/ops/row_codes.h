// Converts a row to codes of e4m3 with one scale, as in ops/quantize, for the definitions of ops that write
// codes themselves.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace tachy::ops {

template <class Store>
float row_codes(const Store* x, int64_t count, uint8_t* codes) {
  uint32_t bits = 0;  // bits of |x|; as integers they have the order of |x|, with NaN above all
  for (int64_t j = 0; j < count; ++j)
    bits = std::max(bits, std::bit_cast<uint32_t>(static_cast<float>(x[j])) & 0x7fffffffu);
  const auto largest = std::bit_cast<float>(bits);
  float scale = largest == 0 ? 1.0f : largest / 448.0f;
  if (scale < 0x1p-126f) scale = 0x1p-126f;
  for (int64_t j = 0; j < count; ++j) {
    const float v = static_cast<float>(x[j]) / scale;
    codes[j] = std::isnan(v) ? 0x7f : to_f8_e4m3(std::clamp(v, -448.0f, 448.0f)).bits;
  }
  return scale;
}

}  // namespace tachy::ops
