// The float32 linear layer on tiles of bf16 (cpu/split_tiles.h): x and the weights are split into
// bf16 planes in scratch, then multiplied in tiles as in gemm_panels.cpp. There are two ways,
// chosen by the number of rows:
//
//   many rows   the weights are split some panels of columns at a time by all workers, for all tiles of rows
//   few rows    all rows are one tile, so that each panel has one reader: a tile splits its own, a block of K
//               at a time, which stays in its core's cache
//
// Every row's sums are the same in both: blocks of K depend only on K, and each is summed up from zero in the
// tiles' order and added to the blocks before it. So a row's bits do not depend on how many rows there are,
// and float32 uses this method for any number of them; packed and mapped weights become the same planes.
#include <algorithm>

#include "cpu/panels.h"
#include "cpu/split_tiles.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr int64_t kOwnRows = 192;       // up to this many rows, a tile splits its own panels
constexpr int64_t kSplitOwnDepth = 64;  // values of K packed at a time for that: 12 KB of a mapped panel
constexpr int64_t kSplitGroupBytes = int64_t{24} << 20;
// Tiles are made smaller if there are fewer than this, so that no thread waits for long.
constexpr int64_t kLeastTiles = 32;
constexpr int64_t kPassRows = 4096;  // rows that are split at once; it bounds the scratch for whole videos

int64_t aligned_bytes(int64_t bytes) { return static_cast<int64_t>(align_up(static_cast<size_t>(bytes))); }

struct SplitPlan {
  // k is padded; pass and rows are the rows of a pass and of a tile; block is a block of K.
  int64_t m, n, k, depth, pass, rows, block;
  int planes;
  bool own;                              // a tile splits its panels itself
  int64_t columns, panels, step, group;  // columns of a panel; panels in all, in a tile, split at once
  // Distances in values. panel_values is for a panel's planes or, if a tile splits its own, for one block of
  // K.
  int64_t x_stride, x_plane, panel_values;
  int64_t stride;  // stride of a tile's sums
  int64_t x_bytes, group_bytes = 0, worker_bytes, tile_bytes, own_bytes = 0;

  explicit SplitPlan(const GemmArgs& a)
      : m(a.x.dim(0)), n(a.weight.dim(0)), k(cpu::split_depth(a.weight.dim(1))) {
    planes = cpu::split_planes(a.weight.dtype);
    depth = a.weight.dim(1);
    columns = cpu::panel_columns(Compute::f32), panels = cpu::panels_count(n, Compute::f32);
    // A block of K of a tile's rows and columns stays in the second-level cache.
    pass = split_evenly(m, kPassRows, 32);
    block = std::min(k, split_evenly(k, 512, 32));
    own = m <= kOwnRows;
    cut_tiles();
    x_stride = k % 1024 == 0 ? k + 32 : k;  // rows 2 KB apart would share a few sets of the cache
    x_plane = pass * x_stride;
    stride = step * columns;
    x_bytes = aligned_bytes(x_plane * 2 * cpu::kSplitPlanes + 64);
    tile_bytes = aligned_bytes(rows * stride * 4);
    panel_values = cpu::split_block_values(own ? block : depth, planes) * (columns / cpu::kSplitColumns);
    group = panels;
    const int64_t packing = a.packed.defined()
                                ? 0
                                : aligned_bytes(cpu::kPanelPackScratch) +
                                      aligned_bytes(columns * (own ? kSplitOwnDepth : depth) * 4);
    if (own) {
      own_bytes = aligned_bytes(panel_values * 2 * step);
      worker_bytes = tile_bytes + own_bytes + packing;
    } else {
      group = std::min(panels, std::max<int64_t>(1, kSplitGroupBytes / (panel_values * 2 * step)) * step);
      group_bytes = aligned_bytes(panel_values * 2 * group);
      worker_bytes = std::max(tile_bytes, packing);
    }
  }

 private:
  void cut_tiles() {
    rows = own ? pass : split_evenly(pass, 384, 32);
    step = std::min<int64_t>(own ? 2 : 8, panels);
    const auto tiles = [&] { return (pass + rows - 1) / rows * ((panels + step - 1) / step); };
    while (tiles() < kLeastTiles && (own ? step > 1 : rows > 96)) {
      if (own || step > 2)
        step /= 2;
      else
        rows = split_evenly(pass, rows / 2, 32);
    }
  }
};

// Splits panel `panel` of the weight, from k on, into planes of `depth` values of K,
// with zeros beyond K's end.
void split_weight(const GemmArgs& a, const SplitPlan& p, int64_t panel, int64_t k, int64_t depth,
                  uint16_t* to, char* scratch) {
  const int64_t width = cpu::panel_width(p.n, panel, Compute::f32);
  const auto split = [&](const float* from, int64_t begin, int64_t end) {
    cpu::split_panel({.from = from,
                      .count = std::min(end, p.depth - k) - begin,
                      .padded = end - begin,
                      .width = width,
                      .depth = depth,
                      .planes = p.planes,
                      .to = to + begin * cpu::kSplitColumns});
  };
  if (a.packed.defined()) {
    const char* packed =
        static_cast<const char*>(a.packed.data) + cpu::panel_offset(p.depth, panel, Compute::f32);
    return split(reinterpret_cast<const float*>(packed) + k * width, 0, depth);
  }
  auto* wide = reinterpret_cast<float*>(scratch + align_up(static_cast<size_t>(cpu::kPanelPackScratch)));
  const int64_t at_once = p.own ? kSplitOwnDepth : depth;
  for (int64_t begin = 0; begin < depth; begin += at_once) {
    const int64_t end = std::min(depth, begin + at_once), given = std::min(end, p.depth - k) - begin;
    if (given > 0)
      cpu::pack_panel(static_cast<const char*>(a.weight.data) +
                          (panel * p.columns * p.depth + k + begin) * dtype_size(a.weight.dtype),
                      a.weight.dtype, p.depth, std::min(p.columns, p.n - panel * p.columns), given, given,
                      width, Compute::f32, wide, scratch);
    split(wide, begin, end);
  }
}

// Multiplies rows from `row` on, whose planes are x, by panels [first, last), whose planes are b. The planes
// are those of all of K, or the tile's own, which are computed here one block after the other.
void run_tile(const GemmArgs& a, const SplitPlan& p, const uint16_t* x, int64_t row, int64_t rows,
              uint16_t* b, int64_t first, int64_t last, char* packing, float* sums) {
  const int64_t column = first * p.columns, count = std::min(p.n, last * p.columns) - column;
  for (int64_t k = 0; k < p.k; k += p.block) {
    const int64_t depth = std::min(p.block, p.k - k), b_depth = p.own ? depth : p.k;
    for (int64_t panel = first; p.own && panel < last; ++panel)
      split_weight(
          a, p, panel, k, depth,
          b + (panel - first) * cpu::split_block_values(depth, p.planes) * (p.columns / cpu::kSplitColumns),
          packing);
    cpu::split_product({.x = x + k,
                        .x_stride = p.x_stride,
                        .x_plane = p.x_plane,
                        .b = p.own ? b : b + k * cpu::kSplitColumns,
                        .b_block = cpu::split_block_values(b_depth, p.planes),
                        .b_plane = b_depth * cpu::kSplitColumns,
                        .planes = p.planes,
                        .rows = rows,
                        .blocks = (count + cpu::kSplitColumns - 1) / cpu::kSplitColumns,
                        .depth = depth,
                        .c = sums,
                        .c_stride = p.stride,
                        .add = k > 0});
  }
  gemm_finish_tile(a, sums, p.stride, row, rows, column, count);
}

// All workers compute the planes of some panels, and then all tiles read them.
void run_groups(const GemmArgs& a, const SplitPlan& p, const uint16_t* x, int64_t begin, int64_t pass,
                uint16_t* group, char* scratch, Stream& stream) {
  const int64_t row_tiles = (pass + p.rows - 1) / p.rows;
  for (int64_t origin = 0; origin < p.panels; origin += p.group) {
    stream.throw_if_cancelled();
    const int64_t end = std::min(p.panels, origin + p.group);
    stream.pool->run(end - origin, [&](int64_t i, int worker) {
      split_weight(a, p, origin + i, 0, p.k, group + i * p.panel_values, scratch + worker * p.worker_bytes);
    });
    const int64_t column_tiles = (end - origin + p.step - 1) / p.step;
    stream.pool->run(row_tiles * column_tiles, [&](int64_t tile, int worker) {
      const int64_t row = tile % row_tiles * p.rows, first = tile / row_tiles * p.step;
      run_tile(a, p, x + row * p.x_stride, begin + row, std::min(p.rows, pass - row),
               group + first * p.panel_values, origin + first, std::min(end, origin + first + p.step),
               nullptr, reinterpret_cast<float*>(scratch + worker * p.worker_bytes));
    });
  }
}

void run_own(const GemmArgs& a, const SplitPlan& p, const uint16_t* x, char* scratch, Stream& stream) {
  stream.throw_if_cancelled();
  stream.pool->run((p.panels + p.step - 1) / p.step, [&](int64_t tile, int worker) {
    char* const mine = scratch + worker * p.worker_bytes;
    run_tile(a, p, x, 0, p.m, reinterpret_cast<uint16_t*>(mine + p.tile_bytes), tile * p.step,
             std::min(p.panels, (tile + 1) * p.step), mine + p.tile_bytes + p.own_bytes,
             reinterpret_cast<float*>(mine));
  });
}

}  // namespace

std::optional<Refusal> gemm_why_not_split(const GemmArgs&, const Stream& stream) {
  if (cpu::usable(stream.precision.compute) != Compute::f32) return Refusal::settings("bf16 is asked for");
  if (!cpu::has_split_tiles()) return Refusal::machine("this CPU has no AMX-BF16, or TACHY_BF16 forbids it");
  return std::nullopt;
}

void gemm_split(const GemmArgs& a, Stream& stream) {
  const SplitPlan p(a);
  ArenaScope scope(*stream.arena);
  const auto take = [&](int64_t bytes) {
    return static_cast<char*>(stream.arena->bytes(static_cast<size_t>(bytes)));
  };
  auto* const x = reinterpret_cast<uint16_t*>(take(p.x_bytes));
  auto* const group = reinterpret_cast<uint16_t*>(p.own ? nullptr : take(p.group_bytes));
  char* const scratch = take(stream.threads() * p.worker_bytes);
  if (stream.measuring()) return;
  for (int64_t begin = 0; begin < p.m; begin += p.pass) {
    const int64_t pass = std::min(p.pass, p.m - begin);
    parallel_ranges(stream, pass, std::max<int64_t>(1, 32768 / p.k), [&](int64_t from, int64_t to, int) {
      for (int64_t i = from; i < to; ++i)
        cpu::split_row(a.x.as<float>() + (begin + i) * a.x.stride(0), p.depth, p.k, x + i * p.x_stride,
                       p.x_plane);
    });
    p.own ? run_own(a, p, x, scratch, stream) : run_groups(a, p, x, begin, pass, group, scratch, stream);
  }
}

}  // namespace tachy::ops
