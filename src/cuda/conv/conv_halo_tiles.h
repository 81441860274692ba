// The compiled tiles of the convolution that shares x among its taps, for conv_halo_sm80.cu, which chooses one.
#pragma once

#include <span>

#include "device/conv_halo_sm80.cuh"

namespace tachy::cuda {

struct HaloTile {
  int rows, columns, threads;
  size_t shared_bytes;
  double rate;  // TFLOP/s on an H100 as capability 8.0
  void (*kernel)(device::ConvHaloParams);
};

template <class S, class T, bool kNorm = false>
constexpr HaloTile halo_tile_of(double rate) {
  return {S::kRows,    S::kColumns,
          S::kThreads, size_t{S::kSharedBytes} + (kNorm ? S::kNormBytes : 0),
          rate,        device::conv_halo_sm80<S, T, kNorm>};
}

// Those that normalise as well: all channels of a position lie in one tile.
std::span<const HaloTile> halo_norm_tiles_bf16();
std::span<const HaloTile> halo_norm_tiles_f16();

}  // namespace tachy::cuda
