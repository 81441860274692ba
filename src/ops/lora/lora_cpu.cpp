// The adapters on panels (cpu/panels.h), in float32: A and B are widened and packed into scratch once per
// call, by all workers. Then a tile of rows computes its u = x · Aᵀ in scratch, scales it, and goes through
// B's panels some columns at a time. All adapters' panels of B lie one after another in depth, so their sum
// is one product.
//
// With an index the rows are sorted by their adapters first: a tile holds rows of one adapter, gathered if
// they are not neighbours. An element is summed over K and over the rank in order, whatever the tile.
#include <algorithm>

#include "cpu/panels.h"
#include "ops/lora/lora_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr Compute kF32 = Compute::f32;
constexpr int64_t kMostRows = 96;  // rows of a tile
constexpr int64_t kStep = 4;       // panels of y at a time

size_t aligned(int64_t bytes) { return align_up(static_cast<size_t>(bytes)); }

// Rows that use adapter i are order[first[i]] up to order[first[i + 1]]; those without one come last. The
// same holds for tiles.
struct Deal {
  int32_t* order = nullptr;
  int64_t *first = nullptr, *tiles = nullptr;
};

struct Plan {
  int64_t m, k, n, rank, adapters;
  int64_t rows;                // rows of a tile
  int64_t columns, padded;     // columns of a panel; padded columns of one adapter's u
  int64_t a_panels, b_panels;  // panels of one adapter
  int64_t a_bytes, b_bytes;    // bytes of one adapter's panels
  bool indexed;
  int64_t u_stride;
  size_t u_bytes, t_bytes, x_bytes;

  explicit Plan(const LoraArgs& a)
      : m(a.x.dim(0)),
        k(a.x.dim(1)),
        n(a.b.dim(1)),
        rank(a.a.dim(1)),
        adapters(a.a.dim(0)),
        columns(cpu::panel_columns(kF32)),
        indexed(a.index.defined()) {
    rows = std::clamp<int64_t>((m / 64 + 7) / 8 * 8, 8, kMostRows);
    a_panels = cpu::panels_count(rank, kF32), b_panels = cpu::panels_count(n, kF32);
    a_bytes = cpu::panels_bytes(k, rank, kF32), b_bytes = cpu::panels_bytes(rank, n, kF32);
    padded = (a_panels - 1) * columns + cpu::panel_width(rank, a_panels - 1, kF32);
    u_stride = indexed ? padded : adapters * padded;
    u_bytes = aligned(rows * u_stride * 4), t_bytes = aligned(rows * kStep * columns * 4);
    x_bytes = indexed ? aligned(rows * k * 4) : 0;
  }
  // Where adapter i's part of panel `panel` of B begins, in its own matrix or in that of all adapters.
  int64_t b_offset(int64_t i, int64_t panel) const {
    if (indexed) return i * b_bytes + cpu::panel_offset(rank, panel, kF32);
    return cpu::panel_offset(adapters * rank, panel, kF32) +
           cpu::panel_k_bytes(cpu::panel_width(n, panel, kF32), i * rank, kF32);
  }
};

void pack(const LoraArgs& a, const Plan& p, const Deal& deal, char* a_packed, char* b_packed, char* scratch,
          size_t worker_bytes, Stream& stream) {
  const int64_t each = p.a_panels + p.b_panels;
  stream.pool->run(p.adapters * each, [&](int64_t item, int worker) {
    const int64_t i = item / each, panel = item % each;
    if (deal.order && deal.first[i] == deal.first[i + 1]) return;  // no row uses this adapter
    char* own = scratch + static_cast<size_t>(worker) * worker_bytes;
    const auto part = [&](const Tensor& from, int64_t count, int64_t depth, int64_t which, char* to) {
      const int64_t begin = which * p.columns;
      const char* rows = static_cast<const char*>(from.data) +
                         (i * from.stride(0) + begin * from.stride(1)) * dtype_size(from.dtype);
      cpu::pack_panel(rows, from.dtype, from.stride(1), std::min(p.columns, count - begin), depth, depth,
                      cpu::panel_width(count, which, kF32), kF32, to, own);
    };
    if (panel < p.a_panels)
      part(a.a, p.rank, p.k, panel, a_packed + i * p.a_bytes + cpu::panel_offset(p.k, panel, kF32));
    else
      part(a.b, p.n, p.rank, panel - p.a_panels, b_packed + p.b_offset(i, panel - p.a_panels));
  });
}

// Computes u of `rows` rows through adapter i, scaled.
void down(const LoraArgs& a, const Plan& p, const float* x, int64_t x_stride, int64_t rows, int64_t i,
          const char* packed, float* u) {
  const void* from = x;
  for (int64_t panel = 0; panel < p.a_panels; ++panel)
    cpu::panel_product({.x = &from,
                        .depth = p.k,
                        .x_stride = x_stride,
                        .panel = packed + i * p.a_bytes + cpu::panel_offset(p.k, panel, kF32),
                        .width = cpu::panel_width(p.rank, panel, kF32),
                        .rows = rows,
                        .c = u + panel * p.columns,
                        .c_stride = p.u_stride},
                       kF32);
  if (!a.scales.defined()) return;
  const float scale = a.scales.as<float>()[i];
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t j = 0; j < p.rank; ++j) u[m * p.u_stride + j] *= scale;
}

// Computes a tile through adapters [first, last): rows order[begin …], or rows begin … if there is no order.
void run_tile(const LoraArgs& a, const Plan& p, const int32_t* order, int64_t begin, int64_t rows,
              int64_t first, int64_t last, const char* a_packed, const char* b_packed, char* scratch) {
  float* u = reinterpret_cast<float*>(scratch);
  float* t = reinterpret_cast<float*>(scratch + p.u_bytes);
  const auto row = [&](int64_t m) { return order ? int64_t{order[begin + m]} : begin + m; };
  const bool whole = !order || row(rows - 1) - row(0) == rows - 1;  // rows in an order ascend
  const float* x = a.x.as<float>() + row(0) * a.x.stride(0);
  int64_t x_stride = a.x.stride(0);
  if (!whole) {
    float* gathered = reinterpret_cast<float*>(scratch + p.u_bytes + p.t_bytes);
    for (int64_t m = 0; m < rows; ++m) std::copy_n(row_of<float>(a.x, row(m)), p.k, gathered + m * p.k);
    x = gathered, x_stride = p.k;
  }
  const int64_t segments = last - first;
  const void* from[16];
  for (int64_t i = first; i < last; ++i)
    down(a, p, x, x_stride, rows, i, a_packed, u + (p.indexed ? 0 : i * p.padded));
  for (int64_t panel = 0; panel < p.b_panels; panel += kStep) {
    const int64_t end = std::min(p.b_panels, panel + kStep), stride = kStep * p.columns;
    for (int64_t one = panel; one < end; ++one)
      // Segments are taken 16 at a time; those of one call follow one another in the panel.
      for (int64_t s = 0; s < segments; s += 16) {
        const int64_t count = std::min<int64_t>(16, segments - s);
        for (int64_t i = 0; i < count; ++i) from[i] = u + (p.indexed ? 0 : (first + s + i) * p.padded);
        cpu::panel_product({.x = from,
                            .segments = count,
                            .depth = p.rank,
                            .x_stride = p.u_stride,
                            .panel = b_packed + p.b_offset(first + s, one),
                            .width = cpu::panel_width(p.n, one, kF32),
                            .rows = rows,
                            .c = t + (one - panel) * p.columns,
                            .c_stride = stride,
                            .add = s > 0},
                           kF32);
      }
    const int64_t column = panel * p.columns, count = std::min(p.n, end * p.columns) - column;
    const auto finish = [&](int64_t m, int64_t rows_here) {
      float* y = row_of<float>(a.y, row(m)) + column;
      cpu::finish_panels({.c = t + m * stride,
                          .c_stride = stride,
                          .residual = a.accumulate ? y : nullptr,
                          .y = y,
                          .y_stride = a.y.stride(0),
                          .rows = rows_here,
                          .n = count});
    };
    if (whole)
      finish(0, rows);
    else
      for (int64_t m = 0; m < rows; ++m) finish(m, 1);
  }
}

// A counting sort by adapter, in which rows keep their order.
void deal_rows(const LoraArgs& a, const Plan& p, const Deal& deal) {
  const int32_t* index = a.index.as<int32_t>();
  const auto slot = [&](int64_t m) { return index[m] < 0 ? p.adapters : int64_t{index[m]}; };
  std::fill(deal.first, deal.first + p.adapters + 2, int64_t{0});
  for (int64_t m = 0; m < p.m; ++m) ++deal.first[slot(m) + 1];
  for (int64_t i = 0; i <= p.adapters; ++i) deal.first[i + 1] += deal.first[i];
  deal.tiles[0] = 0;
  for (int64_t i = 0; i < p.adapters; ++i)
    deal.tiles[i + 1] = deal.tiles[i] + (deal.first[i + 1] - deal.first[i] + p.rows - 1) / p.rows;
  int64_t* next = deal.tiles + p.adapters + 1;
  std::copy_n(deal.first, p.adapters + 1, next);
  for (int64_t m = 0; m < p.m; ++m) deal.order[next[slot(m)]++] = static_cast<int32_t>(m);
}

void run_dealt(const LoraArgs& a, const Plan& p, const Deal& deal, const char* a_packed, const char* b_packed,
               char* scratch, size_t worker_bytes, Stream& stream) {
  stream.pool->run(deal.tiles[p.adapters], [&](int64_t tile, int worker) {
    const int64_t* after = std::upper_bound(deal.tiles, deal.tiles + p.adapters + 1, tile);
    const int64_t i = after - deal.tiles - 1, begin = deal.first[i] + (tile - deal.tiles[i]) * p.rows;
    run_tile(a, p, deal.order, begin, std::min(p.rows, deal.first[i + 1] - begin), i, i + 1, a_packed,
             b_packed, scratch + static_cast<size_t>(worker) * worker_bytes);
  });
  if (a.accumulate) return;
  for (int64_t m = deal.first[p.adapters]; m < p.m; ++m)
    std::fill_n(row_of<float>(a.y, deal.order[m]), p.n, 0.0f);
}

}  // namespace

void lora_cpu(const LoraArgs& a, Stream& stream) {
  const Plan p(a);
  ArenaScope scope(*stream.arena);
  Arena& arena = *stream.arena;
  auto* a_packed = static_cast<char*>(arena.bytes(static_cast<size_t>(p.adapters * p.a_bytes)));
  const int64_t b_bytes =
      p.indexed ? p.adapters * p.b_bytes : cpu::panels_bytes(p.adapters * p.rank, p.n, kF32);
  auto* b_packed = static_cast<char*>(arena.bytes(static_cast<size_t>(b_bytes)));
  const size_t worker_bytes = std::max(p.u_bytes + p.t_bytes + p.x_bytes, aligned(cpu::kPanelPackScratch));
  auto* scratch = static_cast<char*>(arena.bytes(static_cast<size_t>(stream.threads()) * worker_bytes));
  Deal deal;
  if (p.indexed) {
    deal.order = static_cast<int32_t*>(arena.bytes(static_cast<size_t>(p.m) * 4));
    deal.first = static_cast<int64_t*>(arena.bytes(static_cast<size_t>(p.adapters + 2) * 8));
    deal.tiles = static_cast<int64_t*>(arena.bytes(static_cast<size_t>(2 * p.adapters + 2) * 8));
  }
  if (stream.measuring()) return;
  if (p.indexed) deal_rows(a, p, deal);
  pack(a, p, deal, a_packed, b_packed, scratch, worker_bytes, stream);
  stream.throw_if_cancelled();
  if (p.indexed) return run_dealt(a, p, deal, a_packed, b_packed, scratch, worker_bytes, stream);
  parallel_ranges(stream, p.m, p.rows, [&](int64_t begin, int64_t end, int worker) {
    run_tile(a, p, nullptr, begin, end - begin, 0, p.adapters, a_packed, b_packed,
             scratch + static_cast<size_t>(worker) * worker_bytes);
  });
}

}  // namespace tachy::ops
