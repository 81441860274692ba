#include "weights/derived_tensor.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tachy {
namespace {

constexpr int64_t kSlabValues = 1 << 18;  // decoded at a time: they stay in a core's second-level cache

template <class T, T (*Round)(float)>
void narrow(const float* from, int64_t count, void* to, int64_t at) {
  std::transform(from, from + count, static_cast<T*>(to) + at, Round);
}

// `count` values into `to`, from its value `at` on.
void store(const float* from, int64_t count, const Tensor& to, int64_t at) {
  if (to.dtype == DType::f32)
    std::copy_n(from, count, to.as<float>() + at);
  else if (to.dtype == DType::bf16)
    narrow<bf16_t, to_bf16>(from, count, to.data, at);
  else
    narrow<f16_t, to_f16>(from, count, to.data, at);
}

}  // namespace

void decode_values(const DerivedTensor& from, int64_t width, int64_t begin, const Tensor& to) {
  check(to.contiguous() && (to.dtype == DType::f32 || to.dtype == DType::bf16 || to.dtype == DType::f16),
        ErrorCode::internal, "{}: cannot be decoded into {} {}", from.encoding(), dtype_name(to.dtype),
        shape_string(to));
  const int64_t end = begin + to.numel();
  if (begin == end) return;
  const int64_t step = std::max<int64_t>(kSlabValues / width, 1), last_row = (end + width - 1) / width;
  std::vector<float> slab(static_cast<size_t>(std::min(step, last_row - begin / width) * width));
  for (int64_t row = begin / width; row < last_row; row += step) {
    const int64_t rows = std::min(step, last_row - row);
    from.decode(row, Tensor(slab.data(), DType::f32, {rows, width}));
    const int64_t first = std::max(begin, row * width), past = std::min(end, (row + rows) * width);
    store(slab.data() + (first - row * width), past - first, to, first - begin);
  }
}

}  // namespace tachy
