// The tiles of the convolution that shares x among its taps, with the channel norm of their sums. The rates are
// those of the tiles without it, which a norm changes alike.
#include <array>

#include "cuda/conv/conv_halo_tiles.h"

namespace tachy::cuda {
namespace {

using device::HaloShape;
using device::tile::Halves;

template <class T>
constexpr std::array kNormTiles = {halo_tile_of<HaloShape<Halves<T>, 24, 96, 48, 1>, T, true>(445),
                                   halo_tile_of<HaloShape<Halves<T>, 12, 192, 48, 1>, T, true>(455),
                                   halo_tile_of<HaloShape<Halves<T>, 16, 96, 48, 1>, T, true>(420)};

}  // namespace

std::span<const HaloTile> halo_norm_tiles_bf16() { return kNormTiles<__nv_bfloat16>; }
std::span<const HaloTile> halo_norm_tiles_f16() { return kNormTiles<__half>; }

}  // namespace tachy::cuda
