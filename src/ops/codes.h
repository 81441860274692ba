// The codes of 8 bits that a norm or a convolution makes for the next convolution: e4m3, or int8. A value is
// divided by its scale first. Values beyond the largest code become that one.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/tensor.h"

namespace tachy::ops {

inline bool is_code(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::i8; }

// The largest code's value.
inline float top_code(DType dtype) { return dtype == DType::i8 ? 127.0f : 448.0f; }

// A scaled value as a code, to the nearest (even). NaN is NaN in e4m3 and 0 in int8.
inline uint8_t code_of(float v, DType dtype) {
  const float top = top_code(dtype);
  if (dtype == DType::i8)
    return static_cast<uint8_t>(
        static_cast<int8_t>(std::isnan(v) ? 0.0f : std::nearbyint(std::clamp(v, -top, top))));
  return to_f8_e4m3(std::isnan(v) ? v : std::clamp(v, -top, top)).bits;
}

// Requires one of the two kinds of codes.
inline void expect_codes(const char* op, const char* name, DType dtype) {
  require(is_code(dtype), "{}: expected {} f8_e4m3 or i8, got {}", op, name, dtype_name(dtype));
}

}  // namespace tachy::ops
