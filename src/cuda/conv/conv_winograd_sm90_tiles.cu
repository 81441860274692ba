// The tiles of the Hopper convolution with fewer products that are compiled.
#include "cuda/conv/conv_winograd_sm90.h"
#include "device/conv_winograd_sm90.cuh"

namespace tachy::cuda {
namespace {

template <class C>
void launch_winograd(const device::ConvWinogradMaps& maps, const device::ConvWinogradParams& params,
                     int blocks, const Stream& stream) {
  static_assert(C::kPositions == kWinogradPositions && C::kChunk == kWinogradChunk);
  launch("conv_winograd_sm90", device::conv_winograd_sm90<C>,
         {.grid = dim3(blocks), .block = dim3(384), .shared_bytes = C::kSharedBytes}, stream, maps, params);
}

template <int kN>
constexpr ConvWinogradEntry entry() {
  return {kN, launch_winograd<device::ConvPairTile90<__nv_bfloat16, kN>>};
}

constexpr ConvWinogradEntry kEntries[] = {entry<96>(), entry<88>(), entry<80>()};

}  // namespace

std::span<const ConvWinogradEntry> conv_winograd_entries() { return kEntries; }

}  // namespace tachy::cuda
