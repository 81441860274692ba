// Host side of the Hopper convolution in 8 bits: the choice of a tile, the tensor maps and the launch.
#include "cuda/conv/conv8_sm90.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "cuda/gpu.h"
#include "cuda/tensor_map.h"

namespace tachy::cuda {
namespace {

int64_t padded_ci(const device::ConvShape& s) { return ceil_div(s.ci, 32) * 32; }

struct Conv8Choice {
  const Conv8Entry* entry = nullptr;
  int columns_log2 = 4;
  double cost = 0;
};

// The number of channels of a step: the largest chunk that divides all channels (160 only as a whole, since 320 are as
// fast in steps of 64). Nothing else decides the order in which a sum is added up, so that a video's pieces, whose tiles
// may differ, give the same bits.
int64_t chunk_of(int64_t padded) {
  if (padded == 160) return padded;
  for (const int64_t chunk : {128, 96, 64})
    if (padded % chunk == 0) return chunk;
  return 32;
}

// TACHY_CONV8_TILE=128+0x192x2 (channels of the boxes x output channels x positions / 128) asks for one, so
// that the times of tiles can be compared.
bool asked_for(const Conv8Entry& e) {
  static const std::string wanted = env_string("TACHY_CONV8_TILE", "");
  return wanted == fmt::format("{}+{}x{}x{}", e.wide, e.narrow, e.n, e.mi);
}

// Like cost_of in conv_sm90.cpp: the time of a tile, times the rounds of tiles that the GPU needs.
double cost_of(const Conv8Entry& e, const device::ConvShape& s, int columns_log2, int multiprocessors) {
  const int columns = 1 << columns_log2, rows = e.positions() / columns;
  const int64_t rectangles = ceil_div(s.height, rows) * ceil_div(s.width, columns);
  const int64_t rounds = ceil_div(rectangles * s.frames * ceil_div(s.co, e.n), multiprocessors);
  return static_cast<double>(rounds) * e.n * e.mi * (1 + 12.0 / e.n + 0.15 / e.mi);
}

Conv8Choice choose(const Conv8Problem& problem, int multiprocessors) {
  const device::ConvShape& s = problem.conv.shape;
  const int64_t padded = padded_ci(s);
  Conv8Choice best;
  for (const bool asked : {true, false}) {
    for (const Conv8Entry& e : conv8_entries()) {
      if (problem.conv.gamma.defined() && e.n < s.co)
        continue;  // the norm needs all of a position's channels
      if (asked ? !asked_for(e) || padded % e.chunk() != 0 : e.chunk() != chunk_of(padded)) continue;
      for (const int columns_log2 : {4, 3}) {
        const double cost = cost_of(e, s, columns_log2, multiprocessors);
        if (!best.entry || cost < best.cost * 0.999) best = {&e, columns_log2, cost};
      }
    }
    if (best.entry) return best;  // the tile that was asked for, if it fits
  }
  return best;
}

device::Conv8Params params_of(const Conv8Problem& problem, const Conv8Choice& choice) {
  const ConvProblem& conv = problem.conv;
  const Conv8Entry& e = *choice.entry;
  device::Conv8Params params{};
  device::Conv90Params& p = params.c;
  p.s = conv.shape;
  p.s.y = problem.sums.defined() ? problem.sums.data : nullptr;
  p.s.bias = conv.bias.defined() ? conv.bias.data : nullptr;
  p.s.residual = conv.residual.defined() ? conv.residual.data : nullptr;
  if (conv.gamma.defined()) {
    p.gamma = static_cast<const float*>(conv.gamma.data), p.silu = conv.silu;
    p.root = std::sqrt(static_cast<float>(p.s.co));
    (conv.normed.dtype == DType::f8_e4m3 ? params.codes : p.normed) = conv.normed.data;
  }
  params.scale = static_cast<const float*>(problem.scale), params.inverse = 1 / problem.normed_scale;
  p.columns_log2 = choice.columns_log2;
  const int columns = 1 << p.columns_log2, rows = e.positions() / columns;
  p.tiles_h = static_cast<int>(ceil_div(p.s.height, rows));
  p.tiles_w = static_cast<int>(ceil_div(p.s.width, columns));
  p.tiles_n = static_cast<int>(ceil_div(p.s.co, e.n));
  const int64_t work = int64_t{p.tiles_h} * p.tiles_w * p.tiles_n * p.s.frames;
  check(work <= 0x7fffffff, ErrorCode::unsupported, "convolution: too large");
  p.work = static_cast<int>(work);
  p.padded_ci = static_cast<int>(padded_ci(p.s));
  p.chunks = p.padded_ci / e.chunk();
  return params;
}

device::Conv8Maps maps_of(const Conv8Problem& problem, const Conv8Entry& e, const device::Conv90Params& p) {
  const ConvProblem& conv = problem.conv;
  const int64_t columns = int64_t{1} << p.columns_log2, rows = e.positions() / columns;
  const auto frames = [&](const Tensor& t, int64_t channels, int64_t box_rows) {
    return make_tensor_map(
        "convolution", t.dtype, t.data,
        dense_map(4, {t.dim(3), t.dim(2), t.dim(1), t.dim(0)}, {channels, columns, box_rows, 1}));
  };
  device::Conv8Maps maps;
  for (const int i : {0, 1}) {
    const int64_t channels = i == 1 && e.narrow ? e.narrow : e.wide;
    maps.chunk[i] = frames(conv.x, channels, rows + 2);
    maps.cache[i] = conv.cache.defined() ? frames(conv.cache, channels, rows + 2) : maps.chunk[i];
    maps.weights[i] =
        make_tensor_map("convolution", DType::f8_e4m3, conv.packed.data,
                        dense_map(3, {int64_t{27} * p.padded_ci, p.s.co, 1, 1}, {channels, e.n, 1, 1}));
  }
  maps.residual = conv.residual.defined() ? frames(conv.residual, e.wide / 2, rows) : maps.chunk[0];
  return maps;
}

}  // namespace

bool conv8_sm90_available(const Stream& stream, DType codes) {
  return codes == DType::f8_e4m3 && stream.gpu->info().major == 9 && tensor_maps_available();
}

std::optional<Refusal> conv8_sm90_why_not(const Conv8Problem& problem, const Stream& stream) {
  const ConvProblem& conv = problem.conv;
  const device::ConvShape& s = conv.shape;
  if (stream.gpu->info().major != 9) return Refusal::machine("the GPU is not Hopper");
  if (!tensor_maps_available()) return Refusal::machine("the driver has no tensor maps");
  if (conv.x.dtype != DType::f8_e4m3) return Refusal::arguments("it takes codes of e4m3");
  for (const Tensor* t : {&problem.sums, &conv.residual, &conv.normed})
    if (t->defined() && t->dtype != DType::bf16 && (t != &conv.normed || t->dtype != DType::f8_e4m3))
      return Refusal::arguments("it makes bf16");
  if (s.ci % 16 != 0) return Refusal::arguments("it takes input channels in multiples of 16");
  if (s.co % 8 != 0) return Refusal::arguments("it takes output channels in multiples of 8");
  for (const Tensor* t : {&conv.x, &conv.cache, &conv.packed, &conv.residual, &problem.sums, &conv.normed})
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  if (conv.gamma.defined() && reinterpret_cast<uintptr_t>(conv.gamma.data) % 8 != 0)
    return Refusal::arguments("it takes gamma aligned to 8 bytes");
  if (!choose(problem, stream.gpu->info().multiprocessors).entry)
    return Refusal::arguments("no tile for this shape");
  return std::nullopt;
}

void conv8_sm90(const Conv8Problem& problem, Stream& stream) {
  const int multiprocessors = stream.gpu->info().multiprocessors;
  const Conv8Choice choice = choose(problem, multiprocessors);
  check(choice.entry, ErrorCode::unsupported, "convolution: no tile for this shape");
  if (stream.measuring()) return;
  const device::Conv8Params params = params_of(problem, choice);
  choice.entry->launch(maps_of(problem, *choice.entry, params.c), params,
                       std::min(params.c.work, multiprocessors), stream);
}

}  // namespace tachy::cuda
