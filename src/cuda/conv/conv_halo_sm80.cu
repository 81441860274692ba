// The choice among tiles of the convolution that shares x among its taps, and their launches.
//
// In the model a wave of tiles takes the time of its products, at the rate that was measured for the tile on
// an H100 (bench/notes/vae.md). All tiles add in the same order.
#include <array>

#include "cuda/conv/conv.h"
#include "cuda/conv/conv_halo_sm80.h"
#include "cuda/conv/conv_tile_sm80.h"
#include "cuda/dispatch.h"
#include "device/conv_halo_sm80.cuh"

namespace tachy::cuda {
namespace {

using device::HaloShape;
using device::tile::Halves;

struct HaloTile {
  int rows, columns, threads;
  size_t shared_bytes;
  double rate;
  void (*kernel)(device::ConvHaloParams);
};

template <class S, class T>
constexpr HaloTile tile_of(double rate) {
  return {S::kRows, S::kColumns, S::kThreads, S::kSharedBytes, rate, device::conv_halo_sm80<S, T>};
}

template <class T>
constexpr std::array kHaloTiles = {tile_of<HaloShape<Halves<T>, 24, 96, 48, 1>, T>(445),
                                   tile_of<HaloShape<Halves<T>, 12, 192, 48, 1>, T>(455),
                                   tile_of<HaloShape<Halves<T>, 16, 96, 48, 1>, T>(420)};
constexpr int kSide = 16, kLeastChannels = 64;

bool takes(const device::Conv80Params& p, const GpuInfo& gpu) {
  const device::ConvShape& s = p.s;
  return s.kernel_h == 3 && s.kernel_w == 3 && s.stride == 1 && s.phases == 1 && s.ci % 32 == 0 &&
         s.co >= kLeastChannels && int64_t{s.in_height} * s.in_width * s.ci < (int64_t{1} << 29) &&
         int64_t{s.co} * p.k < (int64_t{1} << 29) && kHaloTiles<__half>[0].shared_bytes <= gpu.shared_bytes &&
         conv_tile_fits(p);
}

template <class T>
void run(const device::Conv80Params& params, const Stream& stream) {
  const device::ConvShape& s = params.s;
  const int multiprocessors = stream.gpu->info().multiprocessors;
  const HaloTile* best = nullptr;
  double least = 0;
  for (const HaloTile& tile : kHaloTiles<T>) {
    const int64_t work = ceil_div(s.height, tile.rows) * ceil_div(s.width, kSide) *
                         ceil_div(s.co, tile.columns) * s.frames,
                  waves = ceil_div(work, multiprocessors);
    const double time = static_cast<double>(waves) * tile.rows * tile.columns / tile.rate;
    if (!best || time < least) best = &tile, least = time;
  }
  device::ConvHaloParams p{.conv = params,
                           .tiles_h = static_cast<int>(ceil_div(s.height, best->rows)),
                           .tiles_w = static_cast<int>(ceil_div(s.width, kSide)),
                           .tiles_n = static_cast<int>(ceil_div(s.co, best->columns))};
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * s.frames;
  const LaunchShape shape{.grid = dim3(persistent_grid(stream, p.work, 1)),
                          .block = dim3(static_cast<unsigned>(best->threads)),
                          .shared_bytes = best->shared_bytes};
  launch("conv_halo_sm80", best->kernel, shape, stream, p);
}

}  // namespace

bool conv_halo_sm80(const device::Conv80Params& params, DType dtype, const Stream& stream) {
  if (!takes(params, stream.gpu->info())) return false;
  if (dtype == DType::bf16)
    run<__nv_bfloat16>(params, stream);
  else
    run<__half>(params, stream);
  return true;
}

}  // namespace tachy::cuda
