// Calls a generic lambda with the C++ type of a float dtype: switch_float(op, dtype, [&]<class T>() { … }).
#pragma once

#include "tensor/tensor.h"

namespace tachy::ops {

template <class Body>
void switch_float(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f16:
      return body.template operator()<f16_t>();
    case DType::bf16:
      return body.template operator()<bf16_t>();
    case DType::f8_e4m3:
      return body.template operator()<f8_e4m3_t>();
    case DType::f8_e5m2:
      return body.template operator()<f8_e5m2_t>();
    case DType::f64:
      return body.template operator()<double>();
    default:
      fail(ErrorCode::invalid_argument, "{}: expected a float dtype, got {}", op, dtype_name(dtype));
  }
}

inline float widened(double v) { return static_cast<float>(v); }
template <class T>
float widened(T v) {
  return to_float(v);
}

}  // namespace tachy::ops
