// Rows in 8 bits and back: what the ops quantize and dequantize do, and the packing of convolutions' weights.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tachy::cpu {

inline float top_of_8_bits(DType dtype) {
  return dtype == DType::f8_e4m3 ? 448.0f : dtype == DType::f8_e5m2 ? 57344.0f : 127.0f;
}

// Returns the bits of the largest |x| of `count` values (f32, f16 or bf16), as those of a float32. Infinity is above all
// numbers, and NaN above that.
int32_t largest_bits(const void* x, DType from, int64_t count);

// Writes x / scale in `to` (f8_e4m3, f8_e5m2 or i8), to nearest even. Quotients beyond the top become the top and NaN is NaN
// (0 in i8), unless `bounded` says that there are none of both.
void round_to_8_bits(const void* x, DType from, int64_t count, float scale, DType to, bool bounded,
                     uint8_t* q);

// Writes q · scale.
void widen_8_bits(const uint8_t* q, int64_t count, float scale, DType dtype, float* y);

}  // namespace tachy::cpu
