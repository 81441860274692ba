// Packing of int8 weights for CPUs, one task per block of columns (scaled_gemm_int8.h describes the layout).
#include <algorithm>
#include <cstring>

#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "ops/scaled_gemm/scaled_gemm_int8.h"

namespace tachy::ops {
namespace {

// Packs rows of the weight, at most 16, into the block at `to`.
void pack_block(const int8_t* weight, int64_t k, int64_t count, char* to) {
  constexpr int64_t kWidth = int8::kColumns;
  const int64_t padded = int8::padded_to(k, int8::kDepthStep);
  if (count < kWidth || k < padded) std::memset(to, 0, static_cast<size_t>(padded * kWidth));
  for (int64_t q = 0; q < k / 4; ++q)
    for (int64_t j = 0; j < count; ++j) std::memcpy(to + (q * kWidth + j) * 4, weight + j * k + q * 4, 4);
  for (int64_t j = 0; k % 4 && j < count; ++j)
    std::memcpy(to + (k / 4 * kWidth + j) * 4, weight + j * k + k / 4 * 4, static_cast<size_t>(k % 4));
}

}  // namespace

void int8::unpack_row(const Tensor& packed, int64_t k, int64_t row, int8_t* to) {
  const auto* from =
      static_cast<const int8_t*>(packed.data) + row / kColumns * block_bytes(k) + row % kColumns * 4;
  for (int64_t i = 0; i < k; ++i) to[i] = from[i / 4 * kColumns * 4 + i % 4];
}

int64_t packed_scaled_gemm_bytes(int64_t n, int64_t k) {
  return static_cast<int64_t>(
      align_up(static_cast<size_t>(int8::codes_bytes(n, k) + int8::padded_to(n, int8::kColumns) * 4)));
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
  stream.pool->run(int8::blocks(n), [&](int64_t block, int) {
    const int64_t first = block * int8::kColumns, count = std::min(int8::kColumns, n - first);
    const auto* rows = static_cast<const int8_t*>(weight.data) + first * k;
    pack_block(rows, k, count, static_cast<char*>(packed.data) + block * int8::block_bytes(k));
    for (int64_t j = 0; j < int8::kColumns; ++j) {
      int32_t sum = 0;
      for (int64_t i = 0; j < count && i < k; ++i) sum += rows[j * k + i];
      sums[first + j] = -128 * sum;
    }
  });
}

}  // namespace tachy::ops
