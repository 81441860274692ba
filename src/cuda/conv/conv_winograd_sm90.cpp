// Host side of the Hopper convolution with fewer products: the choice of a tile, the tensor maps and the launch.
#include "cuda/conv/conv_winograd_sm90.h"

#include <algorithm>

#include "cuda/conv/conv.h"
#include "cuda/conv/conv_sm90.h"
#include "cuda/tensor_map.h"

namespace tachy::cuda {
namespace {

struct WinogradTile {
  const ConvWinogradEntry* entry = nullptr;
  int columns_log2 = 5;
  int64_t cost = 0;
};

// A tile costs this beside its products, in channels, because a narrow one reads boxes of inputs from shared memory as often.
constexpr int64_t kWinogradOverhead = 45;

// All tiles give the same bits, so the choice may depend on the picture.
WinogradTile choose_winograd(const device::ConvShape& s, bool whole, int multiprocessors) {
  WinogradTile best;
  for (const ConvWinogradEntry& e : conv_winograd_entries())
    for (const int columns_log2 : {5, 4}) {
      if (whole && (e.n < s.co || e.n % 32 != 0)) continue;
      const int64_t columns = int64_t{1} << columns_log2, rows = kWinogradPositions / columns;
      const int64_t work =
          ceil_div(s.height, rows) * ceil_div(s.width, columns) * s.frames * ceil_div(s.co, e.n);
      const int64_t cost = ceil_div(work, multiprocessors) * (e.n + kWinogradOverhead);
      if (!best.entry || cost < best.cost) best = {&e, columns_log2, cost};
    }
  return best;
}

// Pairs of columns of frames [T, H, W, C]. Where the width is even, the two of a pair are one row of 2·C channels;
// otherwise the map takes every second column.
CUtensorMap pairs_map(const Tensor& t, int64_t rows, int64_t pairs) {
  const int64_t c = t.dim(3), w = t.dim(2), h = t.dim(1), frames = t.dim(0);
  TensorMapShape m = w % 2 == 0 ? dense_map(4, {2 * c, w / 2, h, frames}, {kWinogradChunk, pairs, rows, 1})
                                : dense_map(4, {c, w, h, frames}, {kWinogradChunk, 2 * pairs, rows, 1});
  if (w % 2 != 0) m.step[1] = 2;
  return make_tensor_map("convolution", t.dtype, t.data, m);
}

}  // namespace

std::optional<Refusal> conv_winograd_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  if (s.kernel_t != 3 || s.kernel_h != 3 || s.kernel_w != 3 || s.stride != 1 || s.time_stride != 1 ||
      s.phases != 1)
    return Refusal::arguments("it takes 3x3x3 kernels without strides");
  if (!conv_winograd_packs(*stream.gpu, problem.x.dtype, s.co, s.ci))
    return Refusal::arguments(
        "it takes bf16 on Hopper, Ci in multiples of 32, and Co from 64 on in multiples of 8");
  if (problem.gamma.defined() && !conv_winograd_normalises(s.co))
    return Refusal::arguments("it normalises up to 96 channels");
  return conv_sm90_why_not(problem, stream);
}

void conv_winograd(const ConvProblem& problem, Stream& stream) {
  const int multiprocessors = stream.gpu->info().multiprocessors;
  const WinogradTile choice = choose_winograd(problem.shape, problem.gamma.defined(), multiprocessors);
  check(choice.entry, ErrorCode::unsupported, "convolution: no tile for this shape");
  if (stream.measuring()) return;
  device::ConvWinogradParams p{};
  p.c = conv90_params(problem, kWinogradPositions, choice.entry->n, kWinogradChunk, choice.columns_log2);
  const bool even = p.c.s.in_width % 2 == 0;
  p.pair_columns = even ? 1 : 2, p.side_columns = even ? 0 : 1, p.side_channels = even ? p.c.s.ci : 0;
  p.side_residual = even ? p.c.s.co : 0;

  const int64_t pairs = (int64_t{1} << p.c.columns_log2) / 2, rows = kWinogradPositions / (2 * pairs);
  device::ConvWinogradMaps maps;
  maps.chunk = pairs_map(problem.x, rows + 2, pairs + 1);
  maps.cache = problem.cache.defined() ? pairs_map(problem.cache, rows + 2, pairs + 1) : maps.chunk;
  maps.residual = problem.residual.defined() ? pairs_map(problem.residual, rows, pairs) : maps.chunk;
  const int64_t ci = p.c.padded_ci, co = p.c.s.co;
  const auto weights_map = [&](int64_t taps, int64_t first) {
    const char* data =
        static_cast<const char*>(problem.packed.data) + first * ci * co * dtype_size(DType::bf16);
    return make_tensor_map("convolution", problem.x.dtype, data,
                           dense_map(3, {taps * ci, co, 1, 1}, {kWinogradChunk, choice.entry->n, 1, 1}));
  };
  maps.weights = weights_map(27, 0), maps.sums = weights_map(18, 27);
  choice.entry->launch(maps, p, std::min(p.c.work, multiprocessors), stream);
}

}  // namespace tachy::cuda
