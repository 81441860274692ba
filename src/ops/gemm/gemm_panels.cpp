// The linear layer on panels (cpu/panels.h), in float32 or bf16: y is divided into tiles of some rows by a
// few panels of columns. A tile is summed in scratch over blocks of K, and the epilogue writes it to y while
// it is in cache.
//
// For bf16, x is rounded once, before the tiles. Mapped weights are packed into scratch by all workers, as
// many panels of columns as fit into 24 MB, and then multiplied; with many rows that costs a few percent. If
// all rows are one tile, each panel has one reader: a tile packs its own, a block of K at a time, which stays
// in its core's cache. The division depends only on (M, N, K), and wherever a weight lies, the same tiles add
// up the same values in the same order, so packed and mapped weights give the same bits.
#include <algorithm>

#include "cpu/panels.h"
#include "cpu/widen.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr int64_t kGroupBytes = int64_t{24} << 20;
constexpr int64_t kOwnDepth = 128;  // for float32: a block of one panel that a tile packs for itself is 24 KB

struct Plan {
  Compute compute;
  int64_t m, n, k;       // k is the packed depth
  int64_t rows;          // rows of a tile
  int64_t depth;         // depth of a block of K
  int64_t panels, step;  // total number of panels, and panels of a tile
  // Number of panels packed at once; all of them if they are already packed, or packed by tiles.
  int64_t group;
  bool own;          // a tile packs its panels itself, a block of K at a time
  int64_t x_stride;  // stride of the bf16 copy
  int64_t x_bytes, group_bytes, tile_bytes, pack_bytes, own_bytes;
  int64_t worker_bytes() const {
    return own ? tile_bytes + pack_bytes + own_bytes : std::max(tile_bytes, pack_bytes);
  }
};

int64_t aligned(int64_t bytes) { return static_cast<int64_t>(align_up(static_cast<size_t>(bytes))); }

Plan make_plan(const GemmArgs& a, Compute compute) {
  Plan p{.compute = compute, .m = a.x.dim(0), .n = a.weight.dim(0)};
  const bool bf16 = compute == Compute::bf16;
  p.k = cpu::panel_depth(a.weight.dim(1), compute);
  // A block of X's rows stays in the second-level cache; with bf16, a panel's block of K stays in the first.
  p.rows = std::min(p.m, split_evenly(p.m, bf16 ? 128 : 96, bf16 ? 32 : 8));
  p.depth = std::min(p.k, split_evenly(p.k, bf16 ? 256 : 1024, bf16 ? 32 : 8));
  p.panels = cpu::panels_count(p.n, compute);
  const int64_t columns = cpu::panel_columns(compute);
  p.step = std::min(p.panels, std::max<int64_t>(1, (bf16 ? 384 : 192) / columns));
  p.group = p.panels;
  if (!a.packed.defined()) {
    p.own = p.rows == p.m;
    p.pack_bytes = aligned(cpu::kPanelPackScratch);
    if (p.own) {
      if (!bf16) p.step = 1, p.depth = std::min(p.k, split_evenly(p.k, kOwnDepth, 8));
      p.own_bytes = aligned(cpu::panel_k_bytes(columns, p.depth, compute) * p.step);
    } else {
      const int64_t panel = cpu::panel_k_bytes(columns, p.k, compute);
      p.group = std::min(p.panels, std::max<int64_t>(1, kGroupBytes / (panel * p.step)) * p.step);
      p.group_bytes = aligned(panel * p.group);
    }
  }
  if (bf16) {
    p.x_stride = p.k % 1024 == 0 ? p.k + 32 : p.k;  // rows 2 KB apart would share a few sets of the cache
    p.x_bytes = aligned(cpu::panel_rows(p.m, compute) * p.x_stride * 2 + 64);
  }
  p.tile_bytes = aligned(cpu::panel_rows(p.rows, compute) * p.step * columns * 4);
  return p;
}

// Writes rows [row, row + rows) of x as bf16, with zeros beyond K.
void narrow_rows(const GemmArgs& a, const Plan& p, int64_t row, int64_t rows, uint16_t* to) {
  const int64_t k = a.weight.dim(1);
  for (int64_t i = row; i < row + rows; ++i) {
    uint16_t* out = to + i * p.x_stride;
    cpu::narrow_bf16(a.x.as<float>() + i * a.x.stride(0), k, out);
    std::fill(out + k, out + p.x_stride, uint16_t{0});
  }
}

// Packed panels: the first is panel `panel` of the weight, and each holds `depth` values of K from `k` on.
struct Panels {
  const char* at;
  int64_t panel, k, depth;
};

// Packs panels [first, last) of the mapped weight, values [k, k + depth) of K, into `to`.
void pack_panels(const GemmArgs& a, const Plan& p, int64_t first, int64_t last, int64_t k, int64_t depth,
                 char* to, void* scratch) {
  const int64_t columns = cpu::panel_columns(p.compute), given = a.weight.dim(1);
  for (int64_t panel = first; panel < last; ++panel)
    cpu::pack_panel(
        static_cast<const char*>(a.weight.data) + (panel * columns * given + k) * dtype_size(a.weight.dtype),
        a.weight.dtype, given, std::min(columns, p.n - panel * columns), std::min(depth, given - k), depth,
        cpu::panel_width(p.n, panel, p.compute), p.compute,
        to + cpu::panel_offset(depth, panel - first, p.compute), scratch);
}

// Computes one tile: rows from `row`, panels [first, last) of `weights`, or of those
// that it packs into `own`.
void run_tile(const GemmArgs& a, const Plan& p, const void* x, int64_t x_stride, int64_t row, int64_t first,
              int64_t last, Panels weights, char* own, float* t) {
  const int64_t rows = std::min(p.rows, p.m - row), columns = cpu::panel_columns(p.compute);
  const int64_t size = p.compute == Compute::bf16 ? 2 : 4, stride = p.step * columns;
  for (int64_t k = 0; k < p.k; k += p.depth) {
    const int64_t depth = std::min(p.depth, p.k - k);
    if (p.own) {
      pack_panels(a, p, first, last, k, depth, own + p.pack_bytes, own);
      weights = {own + p.pack_bytes, first, k, depth};
    }
    const void* from = static_cast<const char*>(x) + (row * x_stride + k) * size;
    const int64_t panel_bytes = cpu::panel_k_bytes(columns, weights.depth, p.compute);
    // Panels of one width are multiplied together; the last may be narrower.
    for (int64_t panel = first, next; panel < last; panel = next) {
      const int64_t width = cpu::panel_width(p.n, panel, p.compute);
      next = cpu::panel_width(p.n, last - 1, p.compute) == width ? last : std::max(panel + 1, last - 1);
      cpu::panel_product({.x = &from,
                          .depth = depth,
                          .x_stride = x_stride,
                          .panel = weights.at + (panel - weights.panel) * panel_bytes +
                                   cpu::panel_k_bytes(width, k - weights.k, p.compute),
                          .width = width,
                          .panels = next - panel,
                          .panel_step = panel_bytes,
                          .rows = rows,
                          .c = t + (panel - first) * columns,
                          .c_stride = stride,
                          .add = k > 0},
                         p.compute);
    }
  }
  const int64_t column = first * columns;
  gemm_finish_tile(a, t, stride, row, rows, column, std::min(p.n, last * columns) - column);
}

void run_panels(const GemmArgs& a, Stream& stream, Compute compute) {
  const Plan p = make_plan(a, compute);
  ArenaScope scope(*stream.arena);
  Arena& arena = *stream.arena;
  char* const narrowed =
      p.x_bytes ? static_cast<char*>(arena.bytes(static_cast<size_t>(p.x_bytes))) : nullptr;
  char* const group =
      p.group_bytes ? static_cast<char*>(arena.bytes(static_cast<size_t>(p.group_bytes))) : nullptr;
  char* const scratch =
      static_cast<char*>(arena.bytes(static_cast<size_t>(stream.threads() * p.worker_bytes())));
  if (stream.measuring()) return;

  const void* x = a.x.data;
  int64_t x_stride = a.x.stride(0);
  if (compute == Compute::bf16) {
    parallel_ranges(stream, p.m, std::max<int64_t>(1, 32768 / p.k), [&](int64_t begin, int64_t end, int) {
      narrow_rows(a, p, begin, end - begin, reinterpret_cast<uint16_t*>(narrowed));
    });
    x = narrowed, x_stride = p.x_stride;
  }
  const int64_t row_tiles = (p.m + p.rows - 1) / p.rows;
  if (p.own) stream.throw_if_cancelled();
  for (int64_t origin = 0; origin < p.panels; origin += p.group) {
    const int64_t end = std::min(p.panels, origin + p.group);
    const char* weights = static_cast<const char*>(a.packed.data);
    if (group) {
      stream.throw_if_cancelled();
      stream.pool->run(end - origin, [&](int64_t i, int worker) {
        pack_panels(a, p, origin + i, origin + i + 1, 0, p.k, group + cpu::panel_offset(p.k, i, compute),
                    scratch + worker * p.worker_bytes());
      });
      weights = group;
    }
    const int64_t column_tiles = (end - origin + p.step - 1) / p.step;
    stream.pool->run(row_tiles * column_tiles, [&](int64_t tile, int worker) {
      const int64_t first = origin + tile / row_tiles * p.step, last = std::min(end, first + p.step);
      char* const mine = scratch + worker * p.worker_bytes();
      run_tile(a, p, x, x_stride, tile % row_tiles * p.rows, first, last, {weights, origin, 0, p.k},
               mine + p.tile_bytes, reinterpret_cast<float*>(mine));
    });
  }
}

std::optional<Refusal> why_not(const GemmArgs& a, const Stream& stream, Compute compute) {
  if (cpu::usable(stream.precision.compute) == compute) return std::nullopt;
  if (compute == Compute::f32) return Refusal::settings("bf16 is asked for");
  return cpu::panels_why_not(Compute::bf16).value_or(Refusal::settings("float32 is asked for"));
}

}  // namespace

void gemm_finish_tile(const GemmArgs& a, const float* t, int64_t stride, int64_t row, int64_t rows,
                      int64_t column, int64_t columns) {
  const auto at = [&](const Tensor& tensor, int64_t i) {
    return tensor.defined() ? tensor.as<float>() + i * tensor.stride(0) + column : nullptr;
  };
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t gate_row = a.row.defined() ? a.row.as<int32_t>()[row + i] : 0;
    run_epilogue_row({.t = t + i * stride,
                      .bias = a.bias.defined() ? a.bias.as<float>() + column : nullptr,
                      .multiply = at(a.multiply, row + i),
                      .gate = at(a.gate, gate_row),
                      .residual = at(a.residual, row + i),
                      .y = a.y.as<float>() + (row + i) * a.y.stride(0) + column,
                      .count = columns,
                      .act = a.act});
  }
}

std::optional<Refusal> gemm_why_not_f32(const GemmArgs& a, const Stream& stream) {
  return why_not(a, stream, Compute::f32);
}
std::optional<Refusal> gemm_why_not_bf16(const GemmArgs& a, const Stream& stream) {
  return why_not(a, stream, Compute::bf16);
}
void gemm_f32(const GemmArgs& a, Stream& stream) { run_panels(a, stream, Compute::f32); }
void gemm_bf16(const GemmArgs& a, Stream& stream) { run_panels(a, stream, Compute::bf16); }

}  // namespace tachy::ops
