// Packing of int8 weights for CPUs (scaled_gemm_int8.h says into what), a panel a task.
#include <algorithm>
#include <cstring>

#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "ops/scaled_gemm/scaled_gemm_int8.h"

namespace tachy::ops {
namespace {

// Rows [first, first + count) of weight → the panel of that width at `to`.
void pack_panel(const int8_t* weight, int64_t k, int64_t count, int64_t width, char* to) {
  const int64_t padded = int8::padded_to(k, int8::kDepthStep);
  if (count < width || k < padded) std::memset(to, 0, static_cast<size_t>(padded * width));
  for (int64_t q = 0; q < k / 4; ++q)
    for (int64_t j = 0; j < count; ++j) std::memcpy(to + (q * width + j) * 4, weight + j * k + q * 4, 4);
  for (int64_t j = 0; k % 4 && j < count; ++j)
    std::memcpy(to + (k / 4 * width + j) * 4, weight + j * k + k / 4 * 4, static_cast<size_t>(k % 4));
}

}  // namespace

void int8::unpack_row(const Tensor& packed, int64_t n, int64_t k, int64_t row, int8_t* to) {
  const int64_t panel = row / kColumns, width = panel_width(n, panel), j = row % kColumns;
  const auto* from = static_cast<const int8_t*>(packed.data) + panel_offset(k, panel);
  for (int64_t i = 0; i < k; ++i) to[i] = from[(i / 4 * width + j) * 4 + i % 4];
}

int64_t packed_scaled_gemm_bytes(int64_t n, int64_t k) {
  return static_cast<int64_t>(
      align_up(static_cast<size_t>(int8::codes_bytes(n, k) + int8::padded_to(n, int8::kColumnStep) * 4)));
}

void pack_scaled_gemm_weight(const Tensor& weight, const Tensor& packed, Stream& stream) {
  const char* op = "pack_scaled_gemm_weight";
  require(weight.rank == 2 && weight.dtype == DType::i8, "{}: expected a weight [N, K] i8, got {} {}", op,
          shape_string(weight), dtype_name(weight.dtype));
  expect_contiguous(op, "weight", weight);
  const int64_t n = weight.dim(0), k = weight.dim(1);
  expect_dtype(op, "packed", packed, DType::u8);
  expect_shape(op, "packed", packed, {packed_scaled_gemm_bytes(n, k)});
  if (stream.measuring()) return;
  auto* sums = const_cast<int32_t*>(int8::offset_sums(packed, n, k));
  stream.pool->run(int8::panels(n), [&](int64_t panel, int) {
    const int64_t first = panel * int8::kColumns, count = std::min(int8::kColumns, n - first);
    const int64_t width = int8::panel_width(n, panel);
    const auto* rows = static_cast<const int8_t*>(weight.data) + first * k;
    pack_panel(rows, k, count, width, static_cast<char*>(packed.data) + int8::panel_offset(k, panel));
    for (int64_t j = 0; j < width; ++j) {
      int32_t sum = 0;
      for (int64_t i = 0; j < count && i < k; ++i) sum += rows[j * k + i];
      sums[first + j] = -128 * sum;
    }
  });
}

}  // namespace tachy::ops
