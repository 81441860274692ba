#include "weights/derived_tensor.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "weights/entry_values.h"

namespace tachy {
namespace {

// values decoded at a time, which fit into a core's second-level cache
constexpr int64_t kSlabValues = 1 << 18;

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
  const DType made = from.makes(to.dtype) ? to.dtype : DType::f32;
  std::vector<std::byte> slab;  // holds rows that are to be converted, or of which only a part is wanted
  for (int64_t row = begin / width; row < last_row;) {
    int64_t rows = std::min(step, last_row - row);
    const bool cut = row * width < begin || (row + 1) * width > end;
    if (cut) rows = 1;
    if (!cut) rows = std::min(rows, end / width - row);
    const int64_t first = std::max(begin, row * width), past = std::min(end, (row + rows) * width);
    auto* const out = static_cast<std::byte*>(to.data) + (first - begin) * dtype_size(to.dtype);
    if (made == to.dtype && !cut) {
      from.decode(row, Tensor(out, made, {rows, width}));
    } else {
      slab.resize(static_cast<size_t>(rows * width * dtype_size(made)));
      from.decode(row, Tensor(slab.data(), made, {rows, width}));
      const std::byte* const wanted = slab.data() + (first - row * width) * dtype_size(made);
      if (made == to.dtype)
        std::copy_n(wanted, (past - first) * dtype_size(made), out);
      else
        store_values(reinterpret_cast<const float*>(wanted), past - first, to.dtype, out);
    }
    row += rows;
  }
}

}  // namespace tachy
