#include "weights/derived_tensor.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tachy {
namespace {

constexpr int64_t kSlabValues = 1 << 16;  // decoded at a time: they stay in a core's cache

template <class T, T (*Round)(float)>
void narrow(const std::vector<float>& from, int64_t count, void* to) {
  std::transform(from.begin(), from.begin() + count, static_cast<T*>(to), Round);
}

}  // namespace

void decode_rows(const DerivedTensor& from, int64_t first, const Tensor& to) {
  check(to.contiguous() && (to.dtype == DType::f32 || to.dtype == DType::bf16 || to.dtype == DType::f16),
        ErrorCode::internal, "{}: cannot be decoded into {} {}", from.encoding(), dtype_name(to.dtype),
        shape_string(to));
  if (to.numel() == 0) return;
  const int64_t rows = to.dim(0), width = to.numel() / rows;
  const Tensor all = to.view({rows, width});
  if (to.dtype == DType::f32) return from.decode(first, all);
  const int64_t step = std::clamp<int64_t>(kSlabValues / width, 1, rows);
  std::vector<float> wide(static_cast<size_t>(step * width));
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t n = std::min(step, rows - row);
    from.decode(first + row, Tensor(wide.data(), DType::f32, {n, width}));
    void* out = all.slice(0, row, row + n).data;
    if (to.dtype == DType::bf16)
      narrow<bf16_t, to_bf16>(wide, n * width, out);
    else
      narrow<f16_t, to_f16>(wide, n * width, out);
  }
}

void decode_all(const DerivedTensor& from, const Tensor& to) { decode_rows(from, 0, to); }

}  // namespace tachy
