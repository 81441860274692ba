// The common parts of the ops' host code: argument checks and loops over tiles. Tile sizes depend only on
// shapes, so that results are the same for every number of threads.
#pragma once

#include <algorithm>
#include <functional>

#include "tensor/stream.h"

namespace tachy::ops {

// A tile has about 64 KiB of float32, which is large compared with the cost of handing it out and small
// compared with a cache.
inline int64_t rows_per_tile(int64_t columns) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
}

// Calls body(begin, end, worker) over [0, count) in pieces of `step`.
template <class Body>
void parallel_ranges(Stream& stream, int64_t count, int64_t step, Body&& body) {
  auto tile_body = [&](int64_t tile, int worker) {
    const int64_t begin = tile * step;
    body(begin, std::min(count, begin + step), worker);
  };
  stream.pool->run((count + step - 1) / step, std::ref(tile_body));
}

// Whether rows of y, `columns` values each, are written past the caches (cpu/simd_rows.h: RowWriter). They
// are if y is so large that its next reader would not find it in the caches, if it consists of whole cache
// lines, and if it is not computed in place, where the lines are in the cache already.
inline bool past_caches(const Tensor& x, const Tensor& y, int64_t columns) {
  constexpr int64_t kCachedBytes = int64_t{48} << 20;
  bool whole = columns % 16 == 0 && columns <= 8192 && reinterpret_cast<uintptr_t>(y.data) % 64 == 0;
  int64_t inner = 1;
  for (int i = y.rank - 1; i >= 0; inner *= y.dim(i), --i)
    whole = whole && (inner < columns ? y.stride(i) == inner : y.stride(i) % 16 == 0);
  return whole && y.data != x.data && y.numel() * 4 >= kCachedBytes;
}

// Expects f32, the given shape, and a contiguous inner dim (outer strides are free).
inline void expect_f32(const char* op, const char* name, const Tensor& t,
                       std::initializer_list<int64_t> shape) {
  expect_shape(op, name, t, shape);
  expect_dtype(op, name, t, DType::f32);
  require(t.inner_contiguous(), "{}: expected {} with a contiguous last dim, got stride {}", op, name,
          t.stride(-1));
}

// Expects a parameter of a norm: f32, or on a GPU also the dtype that x and y share.
inline void expect_parameter(const char* op, const char* name, const Tensor& t, int64_t size, const Tensor& x,
                             const Tensor& y, const Stream& stream) {
  if (!stream.gpu || t.dtype == DType::f32 || x.dtype != y.dtype) return expect_f32(op, name, t, {size});
  expect_shape(op, name, t, {size});
  expect_dtype(op, name, t, x.dtype);
  require(t.inner_contiguous(), "{}: expected {} contiguous, got stride {}", op, name, t.stride(-1));
}

// Without this check a tensor of another GPU than the stream's would be read through its
// address as if it lay here.
inline void expect_here(const char* op, const char* name, const Tensor& t, const Stream& stream) {
  if (!stream.gpu || t.device.type != DeviceType::cuda || t.device == stream.device()) return;
  fail(ErrorCode::invalid_argument, "{}: expected {} on {}, got a tensor on {}", op, name,
       device_name(stream.device()), device_name(t.device));
}

// Expects an activation: f32 on the CPU; f32, f16 or bf16 on the GPU.
inline void expect_float_dtype(const char* op, const char* name, const Tensor& t, const Stream& stream) {
  expect_here(op, name, t, stream);
  if (!stream.gpu) return expect_dtype(op, name, t, DType::f32);
  require(t.dtype == DType::f32 || t.dtype == DType::f16 || t.dtype == DType::bf16,
          "{}: expected {} f32, f16 or bf16, got {}", op, name, dtype_name(t.dtype));
}
// The same with a shape, and a contiguous inner dim.
inline void expect_float(const char* op, const char* name, const Tensor& t,
                         std::initializer_list<int64_t> shape, const Stream& stream) {
  expect_shape(op, name, t, shape);
  expect_float_dtype(op, name, t, stream);
  require(t.inner_contiguous(), "{}: expected {} with a contiguous last dim, got stride {}", op, name,
          t.stride(-1));
}

// Expects `t` to have the dtype of `like`, for tensors that share the activations' dtype.
inline void expect_same_dtype(const char* op, const char* name, const Tensor& t, const Tensor& like) {
  expect_dtype(op, name, t, like.dtype);
}

// The same in `dtype`, for the backward ops: their definitions also run on float64,
// where gradients are checked.
inline void expect_real(const char* op, const char* name, const Tensor& t,
                        std::initializer_list<int64_t> shape, DType dtype) {
  expect_shape(op, name, t, shape);
  expect_dtype(op, name, t, dtype);
  require(t.inner_contiguous(), "{}: expected {} with a contiguous last dim, got stride {}", op, name,
          t.stride(-1));
}
// The dtypes of a backward op: that of `t`, which all its activations share, and that of the parameters (on
// the GPU their gradients are float32, too). f32 or f64 on the CPU; f32, f16 or bf16 on the GPU.
struct GradientDTypes {
  DType value, param;
};
inline GradientDTypes gradient_dtypes(const char* op, const char* name, const Tensor& t,
                                      const Stream& stream) {
  require(t.defined(), "{}: expected {}, got no tensor", op, name);
  if (stream.gpu) {
    expect_float_dtype(op, name, t, stream);
    return {t.dtype, DType::f32};
  }
  require(t.dtype == DType::f32 || t.dtype == DType::f64, "{}: expected {} f32 or f64, got {}", op, name,
          dtype_name(t.dtype));
  return {t.dtype, t.dtype};
}

inline void expect_contiguous(const char* op, const char* name, const Tensor& t) {
  if (t.contiguous()) return;
  fail(ErrorCode::invalid_argument, "{}: expected {} {} contiguous, got strides", op, name, shape_string(t));
}

// Expects `row` to map each of m tokens to a row of a table with `rows` rows. On the CPU every entry is
// checked (m int32 are cheap). On the GPU the code that made `row` is responsible for the values.
inline void expect_rows(const char* op, const Tensor& row, int64_t m, int64_t rows, const Stream& stream) {
  require(rows >= 1, "{}: expected a table with at least one row, got 0", op);
  if (!row.defined()) return;
  expect_shape(op, "row", row, {m});
  expect_dtype(op, "row", row, DType::i32);
  expect_contiguous(op, "row", row);
  if (stream.measuring() || stream.gpu) return;
  const int32_t* r = row.as<int32_t>();
  for (int64_t i = 0; i < m; ++i)
    require(r[i] >= 0 && r[i] < rows, "{}: expected row[{}] in [0, {}), got {}", op, i, rows, r[i]);
}

// The data of row `i`, or nullptr for an absent tensor.
inline const float* row_ptr(const Tensor& t, int64_t i) {
  return t.defined() ? static_cast<const float*>(t.data) + i * t.strides[0] : nullptr;
}
template <class T>
T* row_of(const Tensor& t, int64_t i) {
  return t.defined() ? static_cast<T*>(t.data) + i * t.strides[0] : nullptr;
}

// Definitions are templates <Store, Real>: the dtype of their tensors, and the one in which they compute.
// `ref` is <float, double>, or <double, double> if it is given float64 tensors, in which tests check
// gradients.
template <class Body>
void with_store(const Tensor& t, Body&& body) {
  if (t.dtype == DType::f64)
    body.template operator()<double>();
  else
    body.template operator()<float>();
}

}  // namespace tachy::ops
