// The choice among tiles of the convolution that shares x among its taps, and their launches.
//
// In the model a wave of tiles takes the time of its products, at the rate that was measured for the tile on
// an H100 (bench/notes/vae.md). All tiles add in the same order.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "cuda/conv/conv.h"
#include "cuda/conv/conv_halo_sm80.h"
#include "cuda/conv/conv_halo_tiles.h"
#include "cuda/conv/conv_tile_sm80.h"
#include "cuda/dispatch.h"

namespace tachy::cuda {
namespace {

using device::HaloShape;
using device::tile::Halves;

template <class T>
constexpr std::array kHaloTiles = {halo_tile_of<HaloShape<Halves<T>, 24, 96, 48, 1>, T>(445),
                                   halo_tile_of<HaloShape<Halves<T>, 12, 192, 48, 1>, T>(455),
                                   halo_tile_of<HaloShape<Halves<T>, 16, 96, 48, 1>, T>(420)};
// Measured were 320 with 96 columns; the other is a guess.
template <class T>
constexpr std::array kPhaseTiles = {halo_tile_of<HaloShape<Halves<T>, 24, 96, 48, 1, 64, 1, 2>, T>(320),
                                    halo_tile_of<HaloShape<Halves<T>, 12, 192, 48, 1, 64, 1, 2>, T>(325)};
constexpr int kSide = 16;
constexpr int64_t kLeastChannels = 64;

template <class T>
std::span<const HaloTile> tiles_for(const device::ConvShape& s, bool norm) {
  if (norm) return std::is_same_v<T, __half> ? halo_norm_tiles_f16() : halo_norm_tiles_bf16();
  if (s.phases == 4) return kPhaseTiles<T>;
  return kHaloTiles<T>;
}

bool fits(const HaloTile& tile, const device::ConvShape& s, bool norm, const GpuInfo& gpu) {
  return tile.shared_bytes <= gpu.shared_bytes && (!norm || tile.columns >= s.co);
}

bool takes(const device::Conv80Params& p, bool norm, const GpuInfo& gpu) {
  const device::ConvShape& s = p.s;
  const int side = s.phases == 4 ? 2 : 3;
  const auto tiles = tiles_for<__half>(s, norm);
  if (norm && s.phases != 1) return false;
  if (std::none_of(tiles.begin(), tiles.end(), [&](const HaloTile& t) { return fits(t, s, norm, gpu); }))
    return false;
  return s.kernel_h == side && s.kernel_w == side && s.stride == 1 && s.ci % 32 == 0 &&
         s.co >= kLeastChannels && int64_t{s.in_height} * s.in_width * s.ci < (int64_t{1} << 29) &&
         int64_t{s.co} * p.k < (int64_t{1} << 29) && conv_tile_fits(p);
}

void run(std::span<const HaloTile> tiles, const device::Conv80Params& params, const HaloNorm& norm,
         const Stream& stream) {
  const device::ConvShape& s = params.s;
  const GpuInfo& gpu = stream.gpu->info();
  const HaloTile* best = nullptr;
  double least = 0;
  for (const HaloTile& tile : tiles) {
    if (!fits(tile, s, norm.wanted, gpu)) continue;
    const int64_t work = ceil_div(s.height, tile.rows) * ceil_div(s.width, kSide) *
                         ceil_div(s.co, tile.columns) * s.frames * s.phases,
                  waves = ceil_div(work, gpu.multiprocessors);
    const double time = static_cast<double>(waves) * tile.rows * tile.columns / tile.rate;
    if (!best || time < least) best = &tile, least = time;
  }
  device::ConvHaloParams p{.conv = params,
                           .tiles_h = static_cast<int>(ceil_div(s.height, best->rows)),
                           .tiles_w = static_cast<int>(ceil_div(s.width, kSide)),
                           .tiles_n = static_cast<int>(ceil_div(s.co, best->columns)),
                           .gamma = norm.gamma,
                           .root = std::sqrt(static_cast<float>(s.co)),
                           .silu = norm.silu,
                           .normed = norm.normed};
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * s.frames * s.phases;
  const LaunchShape shape{.grid = dim3(persistent_grid(stream, p.work, 1)),
                          .block = dim3(static_cast<unsigned>(best->threads)),
                          .shared_bytes = best->shared_bytes};
  launch("conv_halo_sm80", best->kernel, shape, stream, p);
}

}  // namespace

bool conv_halo_sm80_takes(const device::Conv80Params& params, const HaloNorm& norm, const Stream& stream) {
  const auto address =
      reinterpret_cast<uintptr_t>(norm.gamma) % 8 + reinterpret_cast<uintptr_t>(norm.normed) % 16;
  return address == 0 && takes(params, norm.wanted, stream.gpu->info());
}

bool conv_halo_sm80(const device::Conv80Params& params, const HaloNorm& norm, DType dtype,
                    const Stream& stream) {
  if (!conv_halo_sm80_takes(params, norm, stream)) return false;
  const auto tiles = dtype == DType::bf16 ? tiles_for<__nv_bfloat16>(params.s, norm.wanted)
                                          : tiles_for<__half>(params.s, norm.wanted);
  run(tiles, params, norm, stream);
  return true;
}

}  // namespace tachy::cuda
