// The tiles of the Hopper convolution in 8 bits that are compiled.
#include "cuda/conv/conv8_sm90.h"
#include "cuda/runtime.h"
#include "device/conv8_sm90.cuh"

namespace tachy::cuda {
namespace {

template <class C>
void launch_conv8(const device::Conv8Maps& maps, const device::Conv8Params& params, int blocks,
                  const Stream& stream) {
  launch("conv8_sm90", device::conv8_sm90<C>,
         {.grid = dim3(blocks), .block = dim3(384), .shared_bytes = C::kSharedBytes}, stream, maps, params);
}

template <int kWide, int kNarrow, int kN, int kMi>
constexpr Conv8Entry entry() {
  return {kWide, kNarrow, kN, kMi, launch_conv8<device::ConvTile8<kWide, kNarrow, kN, kMi>>};
}

constexpr Conv8Entry kEntries[] = {
    entry<64, 32, 96, 3>(),   entry<64, 32, 192, 2>(), entry<64, 0, 192, 2>(),  entry<64, 0, 96, 3>(),
    entry<64, 0, 64, 2>(),    entry<128, 0, 192, 2>(), entry<128, 0, 192, 1>(), entry<128, 0, 128, 2>(),
    entry<128, 0, 96, 3>(),   entry<32, 0, 192, 2>(),  entry<32, 0, 96, 3>(),   entry<32, 0, 64, 2>(),
    entry<128, 32, 160, 2>(), entry<64, 0, 160, 2>(),
};

}  // namespace

std::span<const Conv8Entry> conv8_entries() { return kEntries; }

}  // namespace tachy::cuda
