// The tiles of the Hopper convolution that are compiled, for one dtype.
#pragma once

#include "cuda/conv/conv_sm90.h"
#include "device/conv_sm90.cuh"

namespace tachy::cuda {

template <class C>
void launch_conv90(const Conv90Maps& maps, const device::Conv90Params& params, int blocks,
                   const Stream& stream) {
  launch("conv_sm90", device::conv_sm90<C>,
         {.grid = dim3(blocks), .block = dim3(384), .shared_bytes = C::kSharedBytes}, stream, maps.chunk,
         maps.cache, maps.residual, maps.weights, params);
}

template <class T, int kTaps, int kChunk, int kN, int kMi>
constexpr Conv90Entry conv90_entry() {
  using C = device::ConvTile90<T, kTaps, kChunk, kN, kMi>;
  return {kTaps, kChunk, kN, kMi, launch_conv90<C>};
}

template <class T>
inline constexpr Conv90Entry kConv90Entries[] = {
    conv90_entry<T, 3, 64, 192, 2>(), conv90_entry<T, 3, 64, 192, 1>(), conv90_entry<T, 3, 64, 128, 2>(),
    conv90_entry<T, 3, 64, 16, 3>(),  conv90_entry<T, 3, 64, 96, 3>(),  conv90_entry<T, 3, 64, 64, 2>(),
    conv90_entry<T, 3, 32, 192, 2>(), conv90_entry<T, 3, 32, 96, 3>(),  conv90_entry<T, 3, 32, 64, 2>(),
    conv90_entry<T, 3, 32, 8, 2>(),   conv90_entry<T, 2, 64, 192, 2>(), conv90_entry<T, 2, 64, 128, 2>(),
    conv90_entry<T, 2, 64, 96, 3>(),  conv90_entry<T, 2, 64, 96, 2>(),  conv90_entry<T, 2, 32, 96, 2>(),
    conv90_entry<T, 1, 64, 192, 2>(), conv90_entry<T, 1, 64, 128, 2>(), conv90_entry<T, 1, 32, 96, 2>(),
};

}  // namespace tachy::cuda
