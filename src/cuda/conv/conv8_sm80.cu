// Launches the convolution in e4m3 or int8 by mma.sync. Hopper's mma.sync widens e4m3 to f16, so that its own
// kernel is asked first there. int8 has no other kernel on any GPU.
//
// A unit always has 32 channels, and a stage the weights of three taps, so that there is a barrier for every 72
// products of a warp.
#include <array>

#include "cuda/conv/conv8_sm80.h"
#include "cuda/dispatch.h"
#include "device/conv_halo_sm80.cuh"

namespace tachy::cuda {
namespace {

using device::HaloShape;
using device::tile::E4m3;
using device::tile::Int8;

struct Conv8Tile {
  int rows, columns, threads;
  size_t shared_bytes;
  void (*kernel)(device::ConvHaloParams);
};

template <class S>
constexpr Conv8Tile tile_of() {
  return {S::kRows, S::kColumns, S::kThreads, S::kSharedBytes, device::conv_halo_sm80<S, __nv_bfloat16>};
}

// The large tile and the small one.
using Conv8Tiles = std::array<Conv8Tile, 2>;
template <class Kind>
constexpr Conv8Tiles kConv8Tiles = {tile_of<HaloShape<Kind, 24, 96, 48, 1, 32, 3>>(),
                                    tile_of<HaloShape<Kind, 16, 96, 48, 1, 32, 3>>()};
constexpr int kSide = 16;

const Conv8Tile& tile_for(const Conv8Tiles& tiles, const device::ConvShape& s, int multiprocessors) {
  const auto waves = [&](const Conv8Tile& tile) {
    return ceil_div(
        ceil_div(s.height, tile.rows) * ceil_div(s.width, kSide) * ceil_div(s.co, tile.columns) * s.frames,
        multiprocessors);
  };
  const auto& [large, small] = tiles;
  return waves(small) * small.rows < waves(large) * large.rows ? small : large;
}

}  // namespace

bool conv8_sm80_available(const Stream& stream, DType codes) {
  const GpuInfo& gpu = stream.gpu->info();
  const int least = codes == DType::i8 ? 80 : 89;
  return gpu.capability() >= least && gpu.shared_bytes >= kConv8Tiles<Int8>[0].shared_bytes;
}

std::optional<Refusal> conv8_sm80_why_not(const Conv8Problem& problem, const Stream& stream) {
  const ConvProblem& conv = problem.conv;
  const device::ConvShape& s = conv.shape;
  if (!conv8_sm80_available(stream, conv.x.dtype))
    return Refusal::weak_gpu("products in e4m3 need compute capability 8.9, and in int8 8.0");
  if (conv.gamma.defined()) return Refusal::arguments("it leaves the norm to a pass of its own");
  if (problem.sums.dtype != DType::bf16) return Refusal::arguments("it makes bf16");
  if (s.ci % 32 != 0) return Refusal::arguments("it takes input channels in multiples of 32");
  if (s.co % 8 != 0) return Refusal::arguments("it takes output channels in multiples of 8");
  for (const Tensor* t : {&conv.x, &conv.cache, &conv.packed, &conv.residual, &conv.bias, &problem.sums})
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  const int64_t most = int64_t{1} << 30;
  if (int64_t{s.in_height} * s.in_width * s.ci >= most || int64_t{s.co} * s.ci * 27 >= most ||
      int64_t{s.frames} * s.height * s.width >= most)
    return Refusal::arguments("it counts bytes of a frame in 32 bits");
  return std::nullopt;
}

void conv8_sm80(const Conv8Problem& problem, Stream& stream) {
  if (stream.measuring()) return;
  const ConvProblem& conv = problem.conv;
  const Conv8Tile& tile = tile_for(conv.x.dtype == DType::i8 ? kConv8Tiles<Int8> : kConv8Tiles<E4m3>,
                                   conv.shape, stream.gpu->info().multiprocessors);
  device::ConvHaloParams p{.conv = {.s = conv.shape, .x = conv.x.data},
                           .scale = static_cast<const float*>(problem.scale)};
  device::ConvShape& s = p.conv.s;
  s.y = problem.sums.data;
  s.bias = conv.bias.defined() ? conv.bias.data : nullptr;
  s.residual = conv.residual.defined() ? conv.residual.data : nullptr;
  p.conv.cache = conv.cache.defined() ? conv.cache.data : nullptr, p.conv.weights = conv.packed.data;
  p.conv.padded_ci = s.ci, p.conv.k = s.ci * 27;
  p.tiles_h = static_cast<int>(ceil_div(s.height, tile.rows));
  p.tiles_w = static_cast<int>(ceil_div(s.width, kSide));
  p.tiles_n = static_cast<int>(ceil_div(s.co, tile.columns));
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * s.frames;
  const LaunchShape shape{.grid = dim3(persistent_grid(stream, p.work, 1)),
                          .block = dim3(static_cast<unsigned>(tile.threads)),
                          .shared_bytes = tile.shared_bytes};
  launch("conv8_sm80", tile.kernel, shape, stream, p);
}

}  // namespace tachy::cuda
