#include "weights/entry_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace tachy {
namespace {

template <class T>
void widen(const std::vector<std::byte>& from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, double>)
      to[i] = static_cast<float>(value);
    else
      to[i] = to_float(value);
  }
}

int8_t to_int8(float v) { return static_cast<int8_t>(std::clamp(std::nearbyint(v), -127.0f, 127.0f)); }

template <class T, T (*Round)(float)>
void narrow(const float* from, int64_t count, void* to) {
  std::transform(from, from + count, static_cast<T*>(to), Round);
}

}  // namespace

int64_t value_count(const TensorSource::Entry& entry) {
  int64_t count = 1;
  for (const int64_t extent : entry.dims) count *= extent;
  return count;
}

bool has_values(const TensorSource::Entry& entry) { return entry.derived || is_float(entry.dtype); }

void entry_values(const TensorSource::Entry& entry, int64_t begin, std::span<float> to) {
  const int64_t total = value_count(entry), count = static_cast<int64_t>(to.size());
  check(begin >= 0 && count <= total - begin, ErrorCode::internal, "{}: values {} to {} of {}", entry.name,
        begin, begin + count, total);
  if (count == 0) return;
  if (entry.derived)
    return decode_values(*entry.derived, total / entry.dims[0], begin,
                         Tensor(to.data(), DType::f32, {count}));
  const auto size = static_cast<size_t>(dtype_size(entry.dtype));
  std::vector<std::byte> stored(to.size() * size);
  copy_from_file(stored.data(), static_cast<const std::byte*>(entry.data) + static_cast<size_t>(begin) * size,
                 stored.size());
  switch (entry.dtype) {
    case DType::f32:
      return widen<float>(stored, to);
    case DType::f16:
      return widen<f16_t>(stored, to);
    case DType::bf16:
      return widen<bf16_t>(stored, to);
    case DType::f8_e4m3:
      return widen<f8_e4m3_t>(stored, to);
    case DType::f8_e5m2:
      return widen<f8_e5m2_t>(stored, to);
    case DType::f64:
      return widen<double>(stored, to);
    default:
      fail(ErrorCode::internal, "{}: {} is no float", entry.name, dtype_name(entry.dtype));
  }
}

void store_values(const float* from, int64_t count, DType dtype, void* to) {
  if (dtype == DType::f32)
    std::copy_n(from, count, static_cast<float*>(to));
  else if (dtype == DType::bf16)
    narrow<bf16_t, to_bf16>(from, count, to);
  else if (dtype == DType::f16)
    narrow<f16_t, to_f16>(from, count, to);
  else if (dtype == DType::f8_e4m3)
    narrow<f8_e4m3_t, to_f8_e4m3>(from, count, to);
  else if (dtype == DType::i8)
    narrow<int8_t, to_int8>(from, count, to);
  else
    fail(ErrorCode::internal, "values are not stored as {}", dtype_name(dtype));
}

}  // namespace tachy
