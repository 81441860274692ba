// The compiled tiles of the Hopper convolution with fewer products, for conv_winograd_sm90.cpp and the .cu file.
#pragma once

#include <span>

#include "cuda/runtime.h"
#include "device/conv_winograd_params.h"

namespace tachy::cuda {

struct ConvWinogradEntry {
  int n;
  void (*launch)(const device::ConvWinogradMaps&, const device::ConvWinogradParams&, int blocks,
                 const Stream&);
};

inline constexpr int kWinogradPositions = 512, kWinogradChunk = 32;
std::span<const ConvWinogradEntry> conv_winograd_entries();

}  // namespace tachy::cuda
