// The values of a case's tensors (op_case.h): random numbers that depend only on the seed and the index,
// whichever thread makes them, rounded to the tensor's dtype.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace tachy::ops {

inline void narrow_one(float v, DType dtype, void* base, int64_t i) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(base)[i] = v;
      break;
    case DType::f64:
      static_cast<double*>(base)[i] = v;
      break;
    case DType::bf16:
      static_cast<bf16_t*>(base)[i] = to_bf16(v);
      break;
    case DType::f16:
      static_cast<f16_t*>(base)[i] = to_f16(v);
      break;
    default:
      fail(ErrorCode::internal, "op case: no way to {}", dtype_name(dtype));
  }
}

// v rounded to `dtype`.
inline float rounded(float v, DType dtype) {
  if (dtype == DType::bf16) return to_float(to_bf16(v));
  if (dtype == DType::f16) return to_float(to_f16(v));
  return v;
}

// Runs body(begin, end) over [0, count), on the pool if there is one.
template <class Body>
void ranges(ThreadPool* pool, int64_t count, Body&& body) {
  constexpr int64_t kStep = 1 << 18;
  if (!pool || count <= kStep) return body(0, count);
  auto tile = [&](int64_t t, int) { body(t * kStep, std::min(count, (t + 1) * kStep)); };
  pool->run((count + kStep - 1) / kStep, tile);
}

inline uint64_t mixed(uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Calls store(i, v) for i < count, with v from the normal distribution. Box and Muller's method gives two at
// a time (the standard library's would take most of a self-test's time).
template <class Store>
void normals(uint64_t key, int64_t count, Store&& store) {
  for (int64_t i = 0; i < count; i += 2) {
    const uint64_t r = mixed(key + static_cast<uint64_t>(i));
    const float radius = std::sqrt(-2 * std::log(static_cast<float>((r >> 40) + 1) * 0x1p-24f));
    const float angle = static_cast<float>(r & 0xffffff) * (6.28318530718f * 0x1p-24f);
    store(i, radius * std::cos(angle));
    if (i + 1 < count) store(i + 1, radius * std::sin(angle));
  }
}

}  // namespace tachy::ops
