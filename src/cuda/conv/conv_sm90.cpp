// Host side of the Hopper convolution: the choice of a tile, the tensor maps and the launch.
#include "cuda/conv/conv_sm90.h"

#include <algorithm>
#include <cmath>

#include "cuda/conv/conv.h"
#include "cuda/tensor_map.h"

namespace tachy::cuda {
namespace {

// The number of row taps for which one loaded box is used.
int taps_of(const device::ConvShape& s) {
  return s.stride > 1 ? 1 : s.kernel_h % 3 == 0 ? 3 : s.kernel_h % 2 == 0 ? 2 : 1;
}

std::span<const Conv90Entry> entries_of(DType dtype) {
  return dtype == DType::bf16 ? conv90_entries_bf16() : conv90_entries_f16();
}

struct Choice {
  const Conv90Entry* entry = nullptr;
  int columns_log2 = 4;
  double cost = 0;
};

// The time of a tile in units of 64x8x16 products per warpgroup, times the rounds of tiles that the GPU
// needs.
double cost_of(const Conv90Entry& e, const device::ConvShape& s, int columns_log2, int multiprocessors) {
  const int columns = 1 << columns_log2, rows = e.positions() / columns;
  const int64_t rectangles = ceil_div(s.height, rows) * ceil_div(s.width, columns);
  const int64_t work = rectangles * s.frames * s.phases * ceil_div(s.co, e.n);
  const int64_t rounds = ceil_div(work, multiprocessors);
  // A narrow or short tile reads shared memory more often for its products.
  const double product = e.n * e.mi * (1 + 12.0 / e.n + 0.15 / e.mi) * (e.chunk == 32 ? 1.04 : 1);
  return static_cast<double>(rounds) * product;
}

// Whether steps of so many channels are for this convolution. Where a step has several taps, its channels decide the
// order in which a sum is added up. Then only the number of channels may decide them, so that the pieces of a video, and
// frames whose rows are divided among GPUs, have the same bits.
bool takes_steps_of(int chunk, const device::ConvShape& s) {
  const bool divides = conv_padded_ci(s.ci) % 64 == 0, any = s.kernel_h * s.kernel_w == 1;
  return chunk == 32 ? any || !divides : divides;
}

// With `whole`, all of a position's channels must be in one tile.
bool fits(const Conv90Entry& e, const device::ConvShape& s, bool whole) {
  return e.taps == taps_of(s) && (!whole || (e.n >= s.co && e.n % 32 == 0)) && takes_steps_of(e.chunk, s) &&
         (e.n % 32 == 0 ? s.co % 8 == 0 : s.co <= e.n);
}

Choice choose(const ConvProblem& problem, int multiprocessors) {
  const device::ConvShape& s = problem.shape;
  Choice best;
  for (const Conv90Entry& e : entries_of(problem.x.dtype)) {
    if (!fits(e, s, problem.gamma.defined())) continue;
    for (const int columns_log2 : {4, 3}) {
      const double cost = cost_of(e, s, columns_log2, multiprocessors);
      if (!best.entry || cost < best.cost * 0.999) best = {&e, columns_log2, cost};
    }
  }
  return best;
}

}  // namespace

std::optional<Refusal> conv_sm90_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  if (stream.gpu->info().major != 9) return Refusal::machine("the GPU is not Hopper");
  if (!tensor_maps_available()) return Refusal::machine("the driver has no tensor maps");
  if (problem.x.dtype != DType::bf16 && problem.x.dtype != DType::f16)
    return Refusal::arguments("it takes bf16 and f16");
  if (s.ci % 8 != 0) return Refusal::arguments("it takes input channels in multiples of 8");
  if (s.co % 8 != 0 && s.co > 16)
    return Refusal::arguments("it takes up to 16 output channels, or multiples of 8");
  if (s.co % 8 != 0 && problem.residual.defined())
    return Refusal::arguments("it takes a residual of multiples of 8 channels");
  if (s.stride > 4) return Refusal::arguments("a stride above 4");
  if (problem.gamma.defined() && (s.co % 8 != 0 || s.phases != 1))
    return Refusal::arguments("it normalises multiples of 8 channels, without phases");
  if (problem.gamma.defined() && reinterpret_cast<uintptr_t>(problem.gamma.data) % 8 != 0)
    return Refusal::arguments("it takes gamma aligned to 8 bytes");
  for (const Tensor* t :
       {&problem.x, &problem.cache, &problem.packed, &problem.residual, &problem.y, &problem.normed})
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  if (!choose(problem, stream.gpu->info().multiprocessors).entry)
    return Refusal::arguments("no tile for this shape");
  return std::nullopt;
}

device::Conv90Params conv90_params(const ConvProblem& problem, int positions, int n, int chunk,
                                   int columns_log2) {
  device::Conv90Params p{};
  p.s = problem.shape;
  p.s.y = problem.y.data;
  if (problem.gamma.defined()) {
    p.gamma = static_cast<const float*>(problem.gamma.data), p.silu = problem.silu;
    p.root = std::sqrt(static_cast<float>(p.s.co));
    p.normed = problem.normed.defined() ? problem.normed.data : problem.y.data;
    if (!problem.normed.defined()) p.s.y = nullptr;
  }
  p.s.bias = problem.bias.defined() ? problem.bias.data : nullptr;
  p.s.residual = problem.residual.defined() ? problem.residual.data : nullptr;
  p.columns_log2 = columns_log2;
  const int columns = 1 << p.columns_log2, rows = positions / columns;
  p.tiles_h = static_cast<int>(ceil_div(p.s.height, rows));
  p.tiles_w = static_cast<int>(ceil_div(p.s.width, columns));
  p.tiles_n = static_cast<int>(ceil_div(p.s.co, n));
  const int64_t work = int64_t{p.tiles_h} * p.tiles_w * p.tiles_n * p.s.phases * p.s.frames;
  check(work <= 0x7fffffff, ErrorCode::unsupported, "convolution: too large");
  p.work = static_cast<int>(work);
  p.padded_ci = static_cast<int>(conv_padded_ci(p.s.ci));
  p.chunks = p.padded_ci / chunk;
  return p;
}

void conv_sm90(const ConvProblem& problem, Stream& stream) {
  const int multiprocessors = stream.gpu->info().multiprocessors;
  const Choice choice = choose(problem, multiprocessors);
  check(choice.entry, ErrorCode::unsupported, "convolution: no tile for this shape");
  if (stream.measuring()) return;
  const Conv90Entry& e = *choice.entry;
  const device::Conv90Params p = conv90_params(problem, e.positions(), e.n, e.chunk, choice.columns_log2);
  const int columns = 1 << p.columns_log2, rows = e.positions() / columns;

  const auto frames_map = [&](const Tensor& t, int64_t box_rows, int64_t stride) {
    TensorMapShape m = dense_map(4, {t.dim(3), t.dim(2), t.dim(1), t.dim(0)},
                                 {e.chunk, columns * stride, box_rows * stride, 1});
    m.step[1] = m.step[2] = stride;
    return make_tensor_map("convolution", t.dtype, t.data, m);
  };
  Conv90Maps maps;
  maps.chunk = frames_map(problem.x, rows + e.taps - 1, p.s.stride);
  maps.cache =
      problem.cache.defined() ? frames_map(problem.cache, rows + e.taps - 1, p.s.stride) : maps.chunk;
  maps.residual = problem.residual.defined() ? frames_map(problem.residual, rows, 1) : maps.chunk;
  const int64_t taps = int64_t{p.s.kernel_t} * p.s.kernel_h * p.s.kernel_w;
  maps.weights =
      make_tensor_map("convolution", problem.x.dtype, problem.packed.data,
                      dense_map(3, {taps * p.padded_ci, p.s.co, p.s.phases, 1}, {e.chunk, e.n, 1, 1}));
  const int blocks = std::min(p.work, multiprocessors);
  e.launch(maps, p, blocks, stream);
}

}  // namespace tachy::cuda
