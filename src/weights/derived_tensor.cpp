#include "weights/derived_tensor.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "weights/entry_values.h"

namespace tachy {
namespace {

constexpr int64_t kSlabValues = 1 << 18;  // decoded at a time: they stay in a core's second-level cache

}  // namespace

void decode_values(const DerivedTensor& from, int64_t width, int64_t begin, const Tensor& to) {
  const auto is = [&](DType dtype) { return to.dtype == dtype; };
  check(to.contiguous() &&
            (is(DType::f32) || is(DType::bf16) || is(DType::f16) || is(DType::f8_e4m3) || is(DType::i8)),
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
    store_values(slab.data() + (first - row * width), past - first, to.dtype,
                 static_cast<std::byte*>(to.data) + (first - begin) * dtype_size(to.dtype));
  }
}

}  // namespace tachy
