// amax is found as the largest bit pattern of |x|: this is exact in any order, and a NaN, whose pattern is
// above infinity's, wins. If a block lies in one row, a tile of rows is measured and written while it is in
// cache. If blocks have several rows, all tiles are measured first (a partial amax for each strip), then
// merged, and then written.
#include <bit>
#include <cmath>

#include "cpu/eight_bits.h"
#include "ops/op_helpers.h"
#include "ops/quantize/quantize_impl.h"

namespace tachy::ops {
namespace {

// Calls body(first column, count, strip) for each strip of a row.
template <class Body>
void for_strips(const QuantGrid& grid, Body&& body) {
  for (int64_t s = 0; s < grid.strips; ++s) {
    const int64_t first = s * grid.block_columns;
    body(first, std::min(grid.block_columns, grid.columns - first), s);
  }
}

const void* values_at(const Tensor& x, int64_t row, int64_t column) {
  return static_cast<const char*>(x.data) + (row * x.stride(0) + column) * dtype_size(x.dtype);
}

// Fills a.scale for blocks of several rows. `partial` has one value per tile and strip.
void measure_blocks(const QuantizeArgs& a, const QuantGrid& grid, int64_t tile_rows, int64_t tiles,
                    int32_t* partial, Stream& stream) {
  parallel_ranges(stream, grid.bands * tiles, 1, [&](int64_t t, int64_t, int) {
    const int64_t band = t / tiles * grid.block_rows, begin = band + t % tiles * tile_rows;
    const int64_t end = std::min({grid.rows, band + grid.block_rows, begin + tile_rows});
    for_strips(grid, [&](int64_t first, int64_t count, int64_t s) {
      int32_t most = 0;
      for (int64_t i = begin; i < end; ++i)
        most = std::max(most, cpu::largest_bits(values_at(a.x, i, first), a.x.dtype, count));
      partial[t * grid.strips + s] = most;
    });
  });
  for (int64_t b = 0; b < grid.bands * grid.strips; ++b) {
    int32_t most = 0;
    for (int64_t t = 0; t < tiles; ++t)
      most = std::max(most, partial[(b / grid.strips * tiles + t) * grid.strips + b % grid.strips]);
    a.scale.as<float>()[b] = quant_scale(std::bit_cast<float>(most), a.q.dtype);
  }
}

}  // namespace

void quantize_cpu(const QuantizeArgs& a, Stream& stream) {
  const QuantGrid grid(a.x, a.block);
  const bool row_blocks = grid.block_rows == 1 && !a.given_scale;
  const bool measured = !row_blocks && !a.given_scale;
  const int64_t tile_rows = std::min(grid.block_rows, rows_per_tile(grid.columns));
  const int64_t tiles = (grid.block_rows + tile_rows - 1) / tile_rows;
  ArenaScope scope(*stream.arena);
  int32_t* partial = nullptr;
  if (measured)
    partial = static_cast<int32_t*>(
        stream.arena->bytes(static_cast<size_t>(grid.bands * tiles * grid.strips) * sizeof(int32_t)));
  if (stream.measuring()) return;
  if (measured) measure_blocks(a, grid, tile_rows, tiles, partial, stream);
  parallel_ranges(stream, grid.rows, rows_per_tile(grid.columns), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for_strips(grid, [&](int64_t first, int64_t count, int64_t s) {
        const void* x = values_at(a.x, i, first);
        float& scale = a.scale.as<float>()[i / grid.block_rows * grid.strips + s];
        if (row_blocks)
          scale = quant_scale(std::bit_cast<float>(cpu::largest_bits(x, a.x.dtype, count)), a.q.dtype);
        cpu::round_to_8_bits(x, a.x.dtype, count, scale, a.q.dtype, !a.given_scale && std::isfinite(scale),
                             row_of<uint8_t>(a.q, i) + first);
      });
  });
}

void dequantize_cpu(const DequantizeArgs& a, Stream& stream) {
  const QuantGrid grid(a.y, a.block);
  parallel_ranges(stream, grid.rows, rows_per_tile(grid.columns), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      for_strips(grid, [&](int64_t first, int64_t count, int64_t s) {
        const float scale = a.scale.as<float>()[i / grid.block_rows * grid.strips + s];
        cpu::widen_8_bits(row_of<uint8_t>(a.q, i) + first, count, scale, a.q.dtype,
                          row_of<float>(a.y, i) + first);
      });
  });
}

}  // namespace tachy::ops
