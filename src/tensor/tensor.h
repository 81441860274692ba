// Tensor: a trivially copyable view (pointer, up to 6 dims and strides, dtype, device) that owns nothing.
// Weights and state belong to Buffers, activations to an Arena. It is row-major unless the strides differ.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace tachy {

inline constexpr int kMaxDims = 6;

struct Tensor {
  void* data = nullptr;
  int64_t dims[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};  // in elements
  int8_t rank = 0;
  DType dtype = DType::f32;
  Device device = Device::cpu;

  Tensor() = default;
  // A contiguous view of `data`.
  Tensor(void* data, DType dtype, std::span<const int64_t> dims, Device device = Device::cpu);
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> dims, Device device = Device::cpu)
      : Tensor(data, dtype, std::span<const int64_t>(dims.begin(), dims.size()), device) {}

  bool defined() const { return rank > 0; }  // a default-constructed Tensor means "not given"
  int64_t dim(int axis) const;               // negative axes count from the end
  int64_t stride(int axis) const;
  std::span<const int64_t> shape() const { return {dims, static_cast<size_t>(rank)}; }
  int64_t numel() const;
  int64_t bytes() const { return numel() * dtype_size(dtype); }
  bool contiguous() const;
  bool inner_contiguous() const { return rank == 0 || strides[rank - 1] == 1 || dims[rank - 1] == 1; }

  // Returns the typed pointer; throws if T is not the tensor's dtype.
  template <class T>
  T* as() const;

  Tensor view(std::initializer_list<int64_t> shape) const;   // only if contiguous; one dim may be -1
  Tensor slice(int axis, int64_t begin, int64_t end) const;  // [begin, end) along axis
  Tensor flat(int64_t begin, int64_t count) const;  // this many elements of a contiguous tensor, as one row
  Tensor select(int axis, int64_t index) const;     // drops the axis
  Tensor transpose(int a, int b) const;             // swaps two axes without moving data
};

std::string shape_string(std::span<const int64_t> dims);  // "[2, 3]"
inline std::string shape_string(const Tensor& t) { return shape_string(t.shape()); }
bool same_shape(const Tensor& a, const Tensor& b);

// Throws "op: expected name [..], got [..]" unless the shape (and dtype) match; a -1 matches any extent.
void expect_shape(const char* op, const char* name, const Tensor& t, std::initializer_list<int64_t> shape);
void expect_dtype(const char* op, const char* name, const Tensor& t, DType dtype);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<bf16_t>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<f16_t>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<f8_e4m3_t>() {
  return DType::f8_e4m3;
}
template <>
constexpr DType dtype_of<f8_e5m2_t>() {
  return DType::f8_e5m2;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}

template <class T>
T* Tensor::as() const {
  check(dtype == dtype_of<std::remove_const_t<T>>(), ErrorCode::internal, "tensor: expected dtype {}, got {}",
        dtype_name(dtype_of<std::remove_const_t<T>>()), dtype_name(dtype));
  return static_cast<T*>(data);
}

}  // namespace tachy
