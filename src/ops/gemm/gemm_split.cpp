// The float32 linear layer on AMX tiles (cpu/split_tiles.h), for many rows: x and, some panels of columns at
// a time, the weights are split into bf16 planes in scratch, by all workers; then tiles as in
// gemm_panels.cpp. Splitting costs each weight once a call, so few rows stay with the float32 tile. The cut
// depends on (M, N, K) alone, and packed and mapped weights become the same planes.
#include <algorithm>

#include "cpu/panels.h"
#include "cpu/split_tiles.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr int64_t kLeastRows = 128;
constexpr int64_t kGroupBytes = int64_t{24} << 20;
constexpr int64_t kLeastTiles = 32;  // smaller tiles where there would be fewer: no thread waits for long
constexpr int64_t kPassRows = 4096;  // rows that are split at once: bounds the scratch of whole videos

struct Plan {
  int64_t m, n, k, depth, pass, rows, block;  // k: padded; rows of a pass, of a tile; block: of K
  int planes;
  int64_t columns, panels, step, group;     // of a panel; panels in all, of a tile, split at once
  int64_t x_stride, x_plane, panel_values;  // values
  int64_t x_bytes, group_bytes, worker_bytes, tile_bytes, stride;  // stride: of a tile's sums

  explicit Plan(const GemmArgs& a) : m(a.x.dim(0)), n(a.weight.dim(0)), k(cpu::split_depth(a.weight.dim(1))) {
    planes = cpu::split_planes(a.weight.dtype);
    depth = a.weight.dim(1);
    // A block of K of a tile's rows and columns stays in the second-level cache.
    pass = split_evenly(m, kPassRows, 32);
    block = std::min(k, split_evenly(k, 512, 32));
    columns = cpu::panel_columns(Compute::f32), panels = cpu::panels_count(n, Compute::f32);
    rows = split_evenly(pass, 384, 32), step = std::min<int64_t>(8, panels);
    const auto tiles = [&] { return (pass + rows - 1) / rows * ((panels + step - 1) / step); };
    while (tiles() < kLeastTiles && rows > 96) {
      if (step > 2)
        step /= 2;
      else
        rows = split_evenly(pass, rows / 2, 32);
    }
    panel_values = cpu::split_block_values(depth, planes) * (columns / cpu::kSplitColumns);
    group = std::min(panels, std::max<int64_t>(1, kGroupBytes / (panel_values * 2 * step)) * step);
    x_stride = k % 1024 == 0 ? k + 32 : k;  // rows 2 KB apart would share a few sets of the cache
    x_plane = pass * x_stride;
    stride = step * columns;
    const auto aligned = [](int64_t bytes) {
      return static_cast<int64_t>(align_up(static_cast<size_t>(bytes)));
    };
    x_bytes = aligned(x_plane * 2 * cpu::kSplitPlanes + 64);
    group_bytes = aligned(panel_values * 2 * group);
    tile_bytes = aligned(rows * stride * 4);
    const int64_t packing =
        a.packed.defined() ? 0 : aligned(cpu::kPanelPackScratch) + aligned(columns * depth * 4);
    worker_bytes = std::max(tile_bytes, packing);
  }
};

// Panel `panel` of the weight → its planes.
void split_weight(const GemmArgs& a, const Plan& p, int64_t panel, uint16_t* to, char* scratch) {
  const int64_t width = cpu::panel_width(p.n, panel, Compute::f32);
  const float* wide;
  if (a.packed.defined()) {
    wide = reinterpret_cast<const float*>(static_cast<const char*>(a.packed.data) +
                                          cpu::panel_offset(p.depth, panel, Compute::f32));
  } else {
    auto* packed = reinterpret_cast<float*>(scratch + align_up(static_cast<size_t>(cpu::kPanelPackScratch)));
    cpu::pack_panel(
        static_cast<const char*>(a.weight.data) + panel * p.columns * p.depth * dtype_size(a.weight.dtype),
        a.weight.dtype, p.depth, std::min(p.columns, p.n - panel * p.columns), p.depth, p.depth, width,
        Compute::f32, packed, scratch);
    wide = packed;
  }
  cpu::split_panel(wide, p.depth, width, p.planes, to);
}

// Rows from `row` on, whose planes are x, by panels [first, last), whose planes are b.
void run_tile(const GemmArgs& a, const Plan& p, const uint16_t* x, int64_t row, int64_t rows,
              const uint16_t* b, int64_t first, int64_t last, float* sums) {
  const int64_t column = first * p.columns, count = std::min(p.n, last * p.columns) - column;
  for (int64_t k = 0; k < p.k; k += p.block)
    cpu::split_product({.x = x + k,
                        .x_stride = p.x_stride,
                        .x_plane = p.x_plane,
                        .b = b + k * cpu::kSplitColumns,
                        .b_block = cpu::split_block_values(p.depth, p.planes),
                        .b_plane = p.k * cpu::kSplitColumns,
                        .planes = p.planes,
                        .rows = rows,
                        .blocks = (count + cpu::kSplitColumns - 1) / cpu::kSplitColumns,
                        .depth = std::min(p.block, p.k - k),
                        .c = sums,
                        .c_stride = p.stride,
                        .add = k > 0});
  gemm_finish_tile(a, sums, p.stride, row, rows, column, count);
}

}  // namespace

std::optional<Refusal> gemm_why_not_split(const GemmArgs& a, const Stream& stream) {
  if (cpu::usable(stream.precision.compute) != Compute::f32) return Refusal::settings("bf16 is asked for");
  if (!cpu::has_split_tiles()) return Refusal::machine("this CPU has no AMX-BF16, or TACHY_BF16 forbids it");
  if (a.x.dim(0) < kLeastRows) return Refusal::slower("few rows");
  return std::nullopt;
}

void gemm_split(const GemmArgs& a, Stream& stream) {
  const Plan p(a);
  ArenaScope scope(*stream.arena);
  auto* const x = static_cast<uint16_t*>(stream.arena->bytes(static_cast<size_t>(p.x_bytes)));
  auto* const group = static_cast<uint16_t*>(stream.arena->bytes(static_cast<size_t>(p.group_bytes)));
  auto* const scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * p.worker_bytes)));
  if (stream.measuring()) return;
  for (int64_t begin = 0; begin < p.m; begin += p.pass) {
    const int64_t pass = std::min(p.pass, p.m - begin);
    parallel_ranges(stream, pass, std::max<int64_t>(1, 32768 / p.k), [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i)
        cpu::split_row(a.x.as<float>() + (begin + i) * a.x.stride(0), p.depth, p.k, x + i * p.x_stride,
                       p.x_plane);
    });
    const int64_t row_tiles = (pass + p.rows - 1) / p.rows;
    for (int64_t origin = 0; origin < p.panels; origin += p.group) {
      stream.throw_if_cancelled();
      const int64_t end = std::min(p.panels, origin + p.group);
      stream.pool->run(end - origin, [&](int64_t i, int worker) {
        split_weight(a, p, origin + i, group + i * p.panel_values, scratch + worker * p.worker_bytes);
      });
      const int64_t column_tiles = (end - origin + p.step - 1) / p.step;
      stream.pool->run(row_tiles * column_tiles, [&](int64_t tile, int worker) {
        const int64_t row = tile % row_tiles * p.rows, first = tile / row_tiles * p.step;
        run_tile(a, p, x + row * p.x_stride, begin + row, std::min(p.rows, pass - row),
                 group + first * p.panel_values, origin + first, std::min(end, origin + first + p.step),
                 reinterpret_cast<float*>(scratch + worker * p.worker_bytes));
      });
    }
  }
}

}  // namespace tachy::ops
