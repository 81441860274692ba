// The choice among tiles of the convolution by mma.sync, and their launches.
//
// In the model a wave of tiles takes the time of its products, at the rate that was measured for the tile on
// an H100 (bench/notes/vae.md). A tile with more columns than the output has channels wastes the rest.
#include <array>

#include "cuda/conv/conv_tile_sm80.h"
#include "cuda/dispatch.h"
#include "device/conv_tile_sm80.cuh"

namespace tachy::cuda {
namespace {

using device::tile::Halves;
using device::tile::Shape;

struct Tile {
  int rows, columns, depth, threads;  // depth: channels of a stage, which divide those of a tap
  size_t shared_bytes;
  double rate;
  void (*kernel)(device::ConvTileParams);
};

template <class S, class T>
constexpr Tile tile_of(double rate) {
  return {
      S::kRows, S::kColumns, S::kDepth / 2, S::kThreads, S::kSharedBytes, rate, device::conv_tile_sm80<S, T>};
}

template <class T>
using Kind = Halves<T>;
// The last three are for GPUs with 99 KiB of shared memory per block, the others for 163 and 227 KiB.
template <class T>
constexpr std::array kTiles = {
    tile_of<Shape<Kind<T>, 256, 96, 64, 48, 3, 3, 1>, T>(365),
    tile_of<Shape<Kind<T>, 128, 192, 64, 48, 3, 3, 1>, T>(390),
    tile_of<Shape<Kind<T>, 256, 96, 64, 48, 3, 2, 1>, T>(340),
    tile_of<Shape<Kind<T>, 128, 192, 64, 48, 2, 3, 1>, T>(380),
    tile_of<Shape<Kind<T>, 256, 128, 64, 64, 2, 3, 1>, T>(385),
    tile_of<Shape<Kind<T>, 256, 96, 64, 48, 1, 3, 1>, T>(270),
    tile_of<Shape<Kind<T>, 128, 192, 64, 48, 1, 4, 1>, T>(340),
};

double cost(int64_t positions, int64_t channels, int rows, int columns, int64_t slots, double rate) {
  const int64_t tiles = ((positions + rows - 1) / rows) * ((channels + columns - 1) / columns);
  return static_cast<double>((tiles + slots - 1) / slots) * rows * columns / rate;
}

}  // namespace

bool conv_tile_fits(const device::Conv80Params& p) {
  const device::ConvShape& s = p.s;
  const int64_t positions = int64_t{s.frames} * s.height * s.width;
  const auto aligned = [](const void* q) { return reinterpret_cast<uintptr_t>(q) % 16 == 0; };
  for (const void* q : {p.x, p.cache, p.weights, s.bias, s.residual, static_cast<const void*>(s.y)})
    if (!aligned(q)) return false;
  for (const long long stride : {s.y_frame, s.y_row, s.y_column, s.y_phase_row, s.y_phase_column})
    if (stride % 8) return false;
  const int64_t most = int64_t{1} << 30;
  return p.padded_ci && s.ci % 8 == 0 && s.co % 8 == 0 && s.kernel_t * s.kernel_h * s.kernel_w <= 32 &&
         positions * s.phases < most &&
         (int64_t{s.frames} * s.time_stride + 32) * s.in_height * s.in_width < most;
}

namespace {

template <class T>
bool run(const device::Conv80Params& params, const Stream& stream) {
  const device::ConvShape& s = params.s;
  const GpuInfo& gpu = stream.gpu->info();
  const int64_t positions = int64_t{s.frames} * s.height * s.width, rows = positions * s.phases;
  if (!conv_tile_fits(params)) return false;
  // The time of conv_sm80's own tiles. Three of its blocks share a multiprocessor.
  double least =
      cost(rows, s.co, device::kConv80M, device::kConv80N, int64_t{gpu.multiprocessors} * 3, 195.0 / 3);
  const Tile* best = nullptr;
  for (const Tile& tile : kTiles<T>) {
    if (tile.shared_bytes > gpu.shared_bytes || params.padded_ci % tile.depth) continue;
    const double time = cost(rows, s.co, tile.rows, tile.columns, gpu.multiprocessors, tile.rate);
    if (time < least) least = time, best = &tile;
  }
  if (!best) return false;
  device::ConvTileParams p{.conv = params, .positions = static_cast<int>(positions)};
  p.tiles_m = static_cast<int>((positions + best->rows - 1) / best->rows);
  p.tiles_n = (s.co + best->columns - 1) / best->columns;
  const LaunchShape shape{.grid = dim3(persistent_grid(stream, int64_t{p.tiles_m} * p.tiles_n * s.phases, 1)),
                          .block = dim3(static_cast<unsigned>(best->threads)),
                          .shared_bytes = best->shared_bytes};
  launch("conv_tile_sm80", best->kernel, shape, stream, p);
  return true;
}

}  // namespace

bool conv_tile_sm80(const device::Conv80Params& params, DType dtype, const Stream& stream) {
  return dtype == DType::bf16 ? run<__nv_bfloat16>(params, stream) : run<__half>(params, stream);
}

}  // namespace tachy::cuda
