// The int8 linear layer on CPUs: y is cut into tiles of some rows by a few panels of columns. A tile is summed
// in scratch in int32, over blocks of K, and carried to y while it is in cache. x is copied once, into the form
// that the kernel reads. 1560 x 1536 x 1536 are 3.7 G multiply-adds and 2.4 MB of codes each way, so that what
// VNNI does in a cycle (64 a vector, four times float32's) is the floor.
#include "ops/scaled_gemm/scaled_gemm_int8.h"

#include <algorithm>

#include "ops/op_helpers.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

using int8::padded_to;

int64_t aligned(int64_t bytes) { return static_cast<int64_t>(align_up(static_cast<size_t>(bytes))); }

// Parts of at most `limit` that are about equal, a multiple of `step`.
int64_t part(int64_t total, int64_t limit, int64_t step) {
  const int64_t count = (total + limit - 1) / limit;
  return padded_to((total + count - 1) / count, step);
}

struct Plan {
  int64_t m, n, k, depth_given;  // k: padded
  int64_t rows, depth, step;     // of a tile: rows, of K at once, panels
  int64_t panels, x_stride;
  int64_t x_bytes, packed_bytes, tile_bytes;

  Plan(const ScaledGemmArgs& a, int64_t x_size)
      : m(a.x.dim(0)), n(a.weight.dim(0)), depth_given(a.weight.dim(1)) {
    k = padded_to(depth_given, int8::kDepthStep);
    // A panel's block of K stays in the first-level cache, a tile's rows of x and its sums in the second.
    rows = std::min(m, part(m, 192, int8::kRowStep));
    depth = std::min(k, part(k, 512, int8::kDepthStep));
    panels = int8::panels(n);
    step = std::min<int64_t>(panels, 4);
    x_stride =
        k % 1024 == 0 ? k + int8::kDepthStep : k;  // rows 1 KB apart would share a few sets of the cache
    x_bytes = aligned(padded_to(m, int8::kRowStep) * x_stride * x_size + 64);
    packed_bytes = a.packed.defined() ? 0 : packed_scaled_gemm_bytes(n, depth_given);
    tile_bytes = aligned(padded_to(rows, int8::kRowStep) * step * int8::kColumns * 4);
  }
};

void finish_tile(const ScaledGemmArgs& a, const int32_t* sums, int64_t stride, int64_t row, int64_t rows,
                 int64_t column, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    int8::finish_row({.t = sums + i * stride,
                      .x_scale = a.x_scale.as<float>()[row + i],
                      .weight_scale = a.weight_scale.as<float>() + column,
                      .bias = a.bias.defined() ? a.bias.as<float>() + column : nullptr,
                      .addend = a.addend.defined() ? row_ptr(a.addend, row + i) + column : nullptr,
                      .y = row_of<float>(a.y, row + i) + column,
                      .count = columns,
                      .act = a.act});
}

// Rows from `row` on by panels [first, last).
void run_tile(const ScaledGemmArgs& a, const Plan& p, const int8::Kernel& kernel, const char* x,
              const Tensor& packed, int64_t row, int64_t first, int64_t last, int32_t* sums) {
  const int64_t rows = std::min(p.rows, p.m - row), stride = p.step * int8::kColumns;
  for (int64_t k = 0; k < p.k; k += p.depth)
    for (int64_t panel = first; panel < last; ++panel) {
      const int64_t width = int8::panel_width(p.n, panel);
      kernel.product({.x = x + (row * p.x_stride + k) * kernel.x_size,
                      .x_stride = p.x_stride,
                      .depth = std::min(p.depth, p.k - k),
                      .panel = static_cast<const int8_t*>(packed.data) +
                               int8::panel_offset(p.depth_given, panel) + k * width,
                      .width = width,
                      .rows = rows,
                      .c = sums + (panel - first) * int8::kColumns,
                      .c_stride = stride,
                      .add = k > 0,
                      .begin = int8::offset_sums(packed, p.n, p.depth_given) + panel * int8::kColumns});
    }
  const int64_t column = first * int8::kColumns;
  finish_tile(a, sums, stride, row, rows, column, std::min(p.n, last * int8::kColumns) - column);
}

void run(const ScaledGemmArgs& a, Stream& stream, const int8::Kernel& kernel) {
  const Plan p(a, kernel.x_size);
  const ArenaScope scope(*stream.arena);
  Arena& arena = *stream.arena;
  char* const x = static_cast<char*>(arena.bytes(static_cast<size_t>(p.x_bytes)));
  const Tensor packed = p.packed_bytes ? arena.tensor(DType::u8, {p.packed_bytes}) : a.packed;
  char* const scratch = static_cast<char*>(arena.bytes(static_cast<size_t>(stream.threads() * p.tile_bytes)));
  if (stream.measuring()) return;
  if (p.packed_bytes) pack_scaled_gemm_weight(a.weight, packed, stream);
  stream.throw_if_cancelled();
  parallel_ranges(stream, p.m, std::max<int64_t>(1, 65536 / p.k), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      kernel.take_row(row_of<int8_t>(a.x, i), p.depth_given, p.k, x + i * p.x_stride * kernel.x_size);
  });
  const int64_t row_tiles = (p.m + p.rows - 1) / p.rows, column_tiles = (p.panels + p.step - 1) / p.step;
  stream.pool->run(row_tiles * column_tiles, [&](int64_t tile, int worker) {
    const int64_t first = tile / row_tiles * p.step;
    run_tile(a, p, kernel, x, packed, tile % row_tiles * p.rows, first, std::min(p.panels, first + p.step),
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
