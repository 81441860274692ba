// The int8 linear layer on CPUs: y is divided into tiles of some rows by some blocks of columns. A tile is
// summed in scratch in int32, over blocks of K, and written to y while it is in cache. x is copied once, into
// the form that the kernel reads. 1560 x 1536 x 1536 takes 3.7 G multiply-adds and 2.4 MB of codes on each
// side, so the lower bound is VNNI's rate (64 per vector and cycle, four times float32's).
#include "ops/scaled_gemm/scaled_gemm_int8.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

using int8::padded_to;

constexpr int64_t kPastCaches = int64_t{4} << 20;

int64_t aligned(int64_t bytes) { return static_cast<int64_t>(align_up(static_cast<size_t>(bytes))); }

// The size of about equal parts of at most `limit`, which is a multiple of `step`.
int64_t part(int64_t total, int64_t limit, int64_t step) {
  const int64_t count = (total + limit - 1) / limit;
  return padded_to((total + count - 1) / count, step);
}

struct Plan {
  int64_t m, n, k, depth_given;  // k is padded
  int64_t rows, depth, step;     // rows of a tile, values of K at once, blocks of columns of a tile
  int64_t blocks;
  // The number of values of packed x from row to row, and in the block for a tile's rows and one part of K.
  // The blocks lie one after the other.
  int64_t x_stride, x_block;
  int64_t x_bytes, packed_bytes, tile_bytes;

  Plan(const ScaledGemmArgs& a, const int8::Kernel& kernel, int threads)
      : m(a.x.dim(0)), n(a.weight.dim(0)), depth_given(a.weight.dim(1)) {
    k = padded_to(depth_given, int8::kDepthStep);
    rows = part(m, k > 4 * kernel.depth ? kernel.deep_rows : kernel.rows, 2 * int8::kRowStep);
    rows = std::min(m, rows);
    depth = std::min(k, part(k, kernel.depth, int8::kDepthStep));
    blocks = int8::blocks(n);
    step = std::min(blocks, part(blocks, kernel.blocks, int8::kBlockStep));
    // Tiles become narrower if there would be few for each thread. Sums are exact, so no bit depends on it.
    while (step > int8::kBlockStep && row_tiles() * column_tiles() < 4 * threads)
      step = padded_to(step / 2, int8::kBlockStep);
    // Rows 512 bytes apart would share a few sets of the cache.
    x_stride = depth % 512 == 0 ? depth + int8::kDepthStep : depth;
    x_block = padded_to(rows, int8::kRowStep) * x_stride;
    x_bytes = aligned(row_tiles() * depth_parts() * x_block * kernel.x_size + 64);
    packed_bytes = a.packed.defined() ? 0 : packed_scaled_gemm_bytes(n, depth_given);
    tile_bytes = aligned(padded_to(rows, int8::kRowStep) * step * int8::kColumns * 4);
  }
  int64_t row_tiles() const { return (m + rows - 1) / rows; }
  int64_t depth_parts() const { return (k + depth - 1) / depth; }
  int64_t column_tiles() const { return (blocks + step - 1) / step; }
};

void finish_tile(const ScaledGemmArgs& a, const int32_t* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t column, int64_t columns) {
  // If y is too large for any cache near a core, it is stored past the caches, in which it
  // would only push out the weight and x.
  const bool past_caches = a.y.dim(0) * a.y.stride(0) * dtype_size(a.y.dtype) >= kPastCaches;
  for (int64_t i = 0; i < rows; ++i)
    int8::finish_row({.t = sums + i * stride,
                      .x_scale = a.x_scale.as<float>()[row + i],
                      .weight_scale = a.weight_scale.as<float>() + column,
                      .bias = a.bias.defined() ? a.bias.as<float>() + column : nullptr,
                      .addend = a.addend.defined() ? row_ptr(a.addend, row + i) + column : nullptr,
                      .y = row_of<float>(a.y, row + i) + column,
                      .count = columns,
                      .act = a.act,
                      .past_caches = past_caches});
  if (past_caches) hwy::FlushStream();
}

// Multiplies rows from `row` on by blocks [first, last).
void run_tile(const ScaledGemmArgs& a, const Plan& p, const int8::Kernel& kernel, const char* x,
              const Tensor& packed, int64_t row, int64_t first, int64_t last, int32_t* sums) {
  const int64_t rows = std::min(p.rows, p.m - row), stride = p.step * int8::kColumns;
  const int64_t block_bytes = int8::block_bytes(p.depth_given), column = first * int8::kColumns;
  x += row / p.rows * p.depth_parts() * p.x_block * kernel.x_size;
  for (int64_t k = 0; k < p.k; k += p.depth, x += p.x_block * kernel.x_size)
    kernel.product(
        {.x = x,
         .x_stride = p.x_stride,
         .x_rows = p.x_block / p.x_stride,
         .depth = std::min(p.depth, p.k - k),
         .weight = static_cast<const int8_t*>(packed.data) + first * block_bytes + k * int8::kColumns,
         .block_step = block_bytes,
         .blocks = last - first,
         .rows = rows,
         .c = sums,
         .c_stride = stride,
         .more = k + p.depth<p.k, .add = k> 0,
         .begin = int8::offset_sums(packed, p.n, p.depth_given) + column});
  finish_tile(a, sums, stride, row, rows, column, std::min(p.n, last * int8::kColumns) - column);
}

void run(const ScaledGemmArgs& a, Stream& stream, const int8::Kernel& kernel) {
  const Plan p(a, kernel, stream.threads());
  const ArenaScope scope(*stream.arena);
  Arena& arena = *stream.arena;
  char* const x = static_cast<char*>(arena.bytes(static_cast<size_t>(p.x_bytes)));
  const Tensor packed = p.packed_bytes ? arena.tensor(DType::u8, {p.packed_bytes}) : a.packed;
  char* const scratch = static_cast<char*>(arena.bytes(static_cast<size_t>(stream.threads() * p.tile_bytes)));
  if (stream.measuring()) return;
  if (p.packed_bytes) pack_scaled_gemm_weight(a.weight, packed, stream);
  stream.throw_if_cancelled();
  parallel_ranges(stream, p.m, std::max<int64_t>(1, 65536 / p.k), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      char* to = x + (i / p.rows * p.depth_parts() * p.x_block + i % p.rows * p.x_stride) * kernel.x_size;
      for (int64_t k = 0; k < p.k; k += p.depth, to += p.x_block * kernel.x_size) {
        const int64_t part = std::min(p.depth, p.k - k);
        kernel.take_row(row_of<int8_t>(a.x, i) + k, std::min(part, p.depth_given - k), part, to);
      }
    }
  });
  const int64_t row_tiles = p.row_tiles();
  stream.pool->run(row_tiles * p.column_tiles(), [&](int64_t tile, int worker) {
    const int64_t first = tile / row_tiles * p.step;
    run_tile(a, p, kernel, x, packed, tile % row_tiles * p.rows, first, std::min(p.blocks, first + p.step),
             reinterpret_cast<int32_t*>(scratch + worker * p.tile_bytes));
  });
}

std::optional<Refusal> why_not(const ScaledGemmArgs& a, std::optional<Refusal> machine) {
  if (a.x.dtype != DType::i8) return Refusal::arguments("codes of another kind than int8");
  if (a.x.dim(1) > int8::kMostDepth) return Refusal::arguments("sums that may not fit 32 bits");
  return machine;
}

}  // namespace

std::optional<Refusal> scaled_gemm_why_not_amx(const ScaledGemmArgs& a, const Stream&) {
  return why_not(a, int8::why_not_amx());
}
std::optional<Refusal> scaled_gemm_why_not_vnni(const ScaledGemmArgs& a, const Stream&) {
  return why_not(a, int8::why_not_vnni());
}
std::optional<Refusal> scaled_gemm_why_not_simd(const ScaledGemmArgs& a, const Stream&) {
  return why_not(a, std::nullopt);
}
void scaled_gemm_amx(const ScaledGemmArgs& a, Stream& stream) { run(a, stream, int8::amx()); }
void scaled_gemm_vnni(const ScaledGemmArgs& a, Stream& stream) { run(a, stream, int8::vnni()); }
void scaled_gemm_simd(const ScaledGemmArgs& a, Stream& stream) { run(a, stream, int8::simd()); }

}  // namespace tachy::ops
