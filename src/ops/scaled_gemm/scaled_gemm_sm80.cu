// The linear layer in 8 bits by mma.sync (byte_gemm.cuh): int8 from sm_75 on, e4m3 from sm_89 on, the first
// GPUs whose tensor cores multiply it. Hopper's mma.sync widens e4m3 to f16; cuBLASLt is asked first there.
//
// The host chooses a tile by a model of its time that was fitted on an H100
// (bench/notes/eight_bit_products.md): a wave takes the time of the blocks that share a multiprocessor, and
// some more for prologue and epilogue.
#include <array>
#include <limits>

#include "cuda/dispatch.h"
#include "ops/scaled_gemm/byte_gemm.cuh"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

using byte_gemm::Params;
using device::tile::E4m3;
using device::tile::Int8;
using device::tile::Shape;

// A GPU that gives one block at least `device_bytes` of shared memory has room for `blocks` of this tile on
// each multiprocessor: it is 64 KiB at most on sm_75, 99 on sm_86, 89 and 120, 163 on sm_80 and 227 on sm_90.
// `byte_us` is the time of a byte along K for a block that has a multiprocessor to itself.
struct Tile {
  int rows, columns, blocks, threads;
  size_t shared_bytes, device_bytes;
  double byte_us, fixed_us;
  void (*kernel)(Params);
};

template <class S, class T>
constexpr Tile tile_of(size_t device_bytes, double byte_us, double fixed_us) {
  return {S::kRows,    S::kColumns,     S::kBlocks,
          S::kThreads, S::kSharedBytes, device_bytes,
          byte_us,     fixed_us,        byte_gemm::byte_gemm_kernel<S, T>};
}

constexpr size_t kKib = 1024;

// Outputs of float32 are for checks: one small tile is enough for them.
template <class Kind, class T>
constexpr auto tiles() {
  if constexpr (sizeof(T) == 4) {
    return std::array{tile_of<Shape<Kind, 64, 128, 32, 64, 1, 3, 2>, T>(45 * kKib, 0.0035, 3.0)};
  } else {
    return std::array{tile_of<Shape<Kind, 128, 256, 64, 64, 2, 3, 1>, T>(162 * kKib, 0.0077, 7.6),
                      tile_of<Shape<Kind, 128, 256, 64, 64, 1, 3, 1>, T>(90 * kKib, 0.0091, 6.3),
                      tile_of<Shape<Kind, 128, 192, 64, 48, 2, 3, 1>, T>(135 * kKib, 0.0064, 7.9),
                      tile_of<Shape<Kind, 128, 192, 64, 48, 1, 4, 1>, T>(95 * kKib, 0.0068, 8.0),
                      tile_of<Shape<Kind, 128, 128, 64, 64, 2, 3, 2>, T>(227 * kKib, 0.0046, 4.8),
                      tile_of<Shape<Kind, 128, 128, 64, 64, 1, 4, 2>, T>(160 * kKib, 0.0049, 4.9),
                      tile_of<Shape<Kind, 64, 128, 32, 64, 1, 3, 3>, T>(163 * kKib, 0.0032, 3.0),
                      tile_of<Shape<Kind, 64, 128, 32, 64, 1, 3, 2>, T>(45 * kKib, 0.0035, 3.0)};
  }
}

// Whether eight neighbouring values of a row can be read and written at once.
bool stores_packs(const ScaledGemmArgs& a) {
  for (const Tensor* t : {&a.y, &a.addend, &a.bias, &a.weight_scale}) {
    if (!t->defined()) continue;
    if (!cuda::aligned16(*t) || (t->rank > 1 && t->strides[0] * dtype_size(t->dtype) % 16)) return false;
  }
  return true;
}

template <class Kind, class T>
void run(const ScaledGemmArgs& a, Stream& stream, Params p) {
  const cuda::GpuInfo& gpu = stream.gpu->info();
  const auto tiles_of = [&](const Tile& tile) {
    return ((p.m + tile.rows - 1) / tile.rows) * ((p.n + tile.columns - 1) / tile.columns);
  };
  const Tile* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  static constexpr auto kTiles = tiles<Kind, T>();
  for (const Tile& tile : kTiles) {
    if (tile.device_bytes > gpu.shared_bytes) continue;
    const int64_t slots = int64_t{gpu.multiprocessors} * tile.blocks,
                  waves = (tiles_of(tile) + slots - 1) / slots;
    const double us = static_cast<double>(waves) * (tile.fixed_us + tile.blocks * p.k * tile.byte_us);
    if (us < least) least = us, best = &tile;
  }
  p.tiles_m = static_cast<int>((p.m + best->rows - 1) / best->rows);
  p.tiles_n = (p.n + best->columns - 1) / best->columns;
  p.group = 1024 / best->rows;
  const cuda::LaunchShape shape{dim3(cuda::persistent_grid(stream, tiles_of(*best), best->blocks)),
                                dim3(static_cast<unsigned>(best->threads)), best->shared_bytes};
  cuda::launch("scaled_gemm", best->kernel, shape, stream, p);
}

}  // namespace

std::optional<Refusal> scaled_gemm_why_not_sm80(const ScaledGemmArgs& a, const Stream& stream) {
  const cuda::GpuInfo& gpu = stream.gpu->info();
  const bool integers = a.x.dtype == DType::i8;
  if (gpu.capability() < (integers ? 75 : 89))
    return Refusal::weak_gpu(integers ? "products in int8 need compute capability 7.5"
                                      : "products in e4m3 need compute capability 8.9");
  if (a.x.dims[1] > 131071) return Refusal::arguments("sums that int32 does not hold");
  if (a.x.dims[0] > (1 << 30)) return Refusal::arguments("it counts rows in 32 bits");
  if (!cuda::fits_packs(16, {&a.x, &a.weight}))
    return Refusal::arguments("rows that do not begin at 16 bytes");
  return std::nullopt;
}

void scaled_gemm_sm80(const ScaledGemmArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  const auto row = [](const Tensor& t) { return t.defined() ? t.strides[0] : 0; };
  const Params p{.x = static_cast<const uint8_t*>(a.x.data),
                 .w = static_cast<const uint8_t*>(a.weight.data),
                 .x_scale = static_cast<const float*>(a.x_scale.data),
                 .w_scale = static_cast<const float*>(a.weight_scale.data),
                 .bias = a.bias.defined() ? a.bias.data : nullptr,
                 .addend = a.addend.defined() ? a.addend.data : nullptr,
                 .y = a.y.data,
                 .x_row = row(a.x),
                 .addend_row = row(a.addend),
                 .y_row = row(a.y),
                 .m = a.x.dims[0],
                 .n = static_cast<int>(a.weight.dims[0]),
                 .k = static_cast<int>(a.x.dims[1]),
                 .packs = stores_packs(a),
                 .act = static_cast<device::Act>(a.act)};
  cuda::dispatch_float("scaled_gemm", a.y.dtype, [&]<class T>() {
    if (a.x.dtype == DType::i8) return run<Int8, T>(a, stream, p);
    run<E4m3, T>(a, stream, p);
  });
}

}  // namespace tachy::ops
