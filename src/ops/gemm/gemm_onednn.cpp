// The linear layer through the vendor library: y is cut into tiles of 128 columns (a slab of the weight) by
// some rows of x; each tile is one kernel call into scratch, and the epilogue carries it to y while it is in
// cache.
//
// For mapped weights of few rows (panels serve the others): the tile widens its slab to float (f32 is read
// where it lies) and the kernel transposes it on the fly. The cut depends on (M, N, K) alone.
#include <algorithm>

#include "cpu/onednn.h"
#include "cpu/widen.h"
#include "ops/gemm/gemm_impl.h"

namespace tachy::ops {
namespace {

constexpr int64_t kMappedRows = 384;

struct Plan {
  int64_t m, n, k, rows, row_tiles, slabs;
  bool widen, copy_x, direct;
  const cpu::TileKernel* kernels[2][2];                             // [last rows][last columns]
  int64_t x_bytes = 0, w_bytes = 0, y_bytes = 0, kernel_bytes = 0;  // of each worker's scratch
  int64_t worker_bytes() const { return x_bytes + w_bytes + y_bytes + kernel_bytes; }
};

bool plain_epilogue(const GemmArgs& a) {
  return !a.bias.defined() && a.act == Activation::none && !a.multiply.defined() && !a.residual.defined();
}

int64_t bytes_of(int64_t floats) { return static_cast<int64_t>(align_up(static_cast<size_t>(floats) * 4)); }

Plan make_plan(const GemmArgs& a) {
  Plan p{.m = a.x.dim(0), .n = a.weight.dim(0), .k = a.weight.dim(1)};
  const int64_t limit = kMappedRows;
  const int64_t count = (p.m + limit - 1) / limit;
  p.rows = (p.m + count - 1) / count;
  if (count > 1) p.rows = std::min(limit, (p.rows + 7) / 8 * 8);
  p.row_tiles = (p.m + p.rows - 1) / p.rows;
  p.slabs = (p.n + kSlabColumns - 1) / kSlabColumns;
  p.widen = a.weight.dtype != DType::f32;
  p.copy_x = a.x.stride(0) != p.k && p.m > 1;
  p.direct = p.slabs == 1 && plain_epilogue(a) && (a.y.stride(0) == p.n || p.m == 1);
  const int64_t last_rows = p.m - (p.row_tiles - 1) * p.rows,
                last_columns = p.n - (p.slabs - 1) * kSlabColumns;
  for (const bool last_row : {false, true})
    for (const bool last_column : {false, true}) {
      const int64_t columns = last_column ? last_columns : std::min(p.n, kSlabColumns);
      const cpu::TileKernel* kernel =
          &cpu::matmul_kernel({last_row ? last_rows : p.rows, p.k, columns, true});
      p.kernels[last_row][last_column] = kernel;
      p.kernel_bytes = std::max(p.kernel_bytes, kernel->scratch_bytes());
    }
  const int64_t columns = std::min(p.n, kSlabColumns);
  if (p.copy_x) p.x_bytes = bytes_of(p.rows * p.k);
  if (p.widen) p.w_bytes = bytes_of(columns * p.k);
  if (!p.direct) p.y_bytes = bytes_of(p.rows * columns);
  return p;
}

void run_tile(const GemmArgs& a, const Plan& p, int64_t row_tile, int64_t slab, char* scratch) {
  const int64_t row = row_tile * p.rows, rows = std::min(p.rows, p.m - row);
  const int64_t column = slab * kSlabColumns, columns = std::min(kSlabColumns, p.n - column);
  const float* x = a.x.as<float>() + row * a.x.stride(0);
  if (p.copy_x) {
    float* dense = reinterpret_cast<float*>(scratch);
    for (int64_t i = 0; i < rows; ++i) std::copy_n(x + i * a.x.stride(0), p.k, dense + i * p.k);
    x = dense;
  }
  scratch += p.x_bytes;
  const char* weights = static_cast<const char*>(a.weight.data) + column * p.k * dtype_size(a.weight.dtype);
  if (p.widen) {
    cpu::widen(weights, a.weight.dtype, columns * p.k, reinterpret_cast<float*>(scratch));
    weights = scratch;
  }
  scratch += p.w_bytes;
  float* t = p.direct ? a.y.as<float>() + row * p.n : reinterpret_cast<float*>(scratch);
  const auto& kernel = *p.kernels[row_tile == p.row_tiles - 1][slab == p.slabs - 1];
  kernel.run(x, weights, nullptr, t, scratch + p.y_bytes);
  if (!p.direct) gemm_finish_tile(a, t, columns, row, rows, column, columns);
}

}  // namespace

std::optional<std::string> gemm_why_not_onednn(const GemmArgs& a, const Stream&) {
  if (a.packed.defined()) return "the weight is packed as panels";
  const Plan p = make_plan(a);
  for (const auto& row : p.kernels)
    for (const cpu::TileKernel* kernel : row)
      if (!kernel->fast()) return "oneDNN offers only " + kernel->impl();
  return std::nullopt;
}

void gemm_onednn(const GemmArgs& a, Stream& stream) {
  const Plan p = make_plan(a);
  ArenaScope scope(*stream.arena);
  char* scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * p.worker_bytes())));
  if (stream.measuring()) return;
  stream.pool->run(p.row_tiles * p.slabs, [&](int64_t tile, int worker) {
    run_tile(a, p, tile % p.row_tiles, tile / p.row_tiles, scratch + worker * p.worker_bytes());
  });
}

}  // namespace tachy::ops
