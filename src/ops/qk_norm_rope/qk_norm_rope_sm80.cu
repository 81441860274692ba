// RMSNorm over all channels and the rotation of each head in one pass, with q and k of a token together, so
// that its row of the rope tables is read once. A thread holds neighbouring pairs, so the rotation needs no
// shuffles. A group of threads has one token; two were no faster (H200).
//   x [B, L, C]: token t = b·L + l;  pack j of a thread holds channels (j·width + lane)·N …
// If each head has its own norm, a token's heads are treated as tokens with a head's channels, which share a
// row of the tables.
#include "cuda/row_plan.h"
#include "device/reduce.cuh"
#include "device/vec.cuh"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {
namespace {

using namespace device;

template <class T>
struct Side {
  const T* x;
  T* y;
  int64_t x_batch, x_token, y_batch, y_token;
  const float* weight;  // optional
  float scale;
};

template <class T>
struct Params {
  Side<T> side[2];  // queries and keys, or only queries
  const float *cos, *sin;
  int64_t cos_stride, sin_stride;
  int64_t tokens;
  uint32_t length, norms;  // norms: per token, each treated as a token of its own
  int c, head;             // channels of a norm, head dim
  float eps;
  bool streaming;
};

struct Place {
  int64_t b, l;
  int first;  // first of the token's channels
};
// Position and row of a token; 32-bit division takes a third of the time of the 64-bit one.
template <class T>
__device__ __forceinline__ Place place_of(const Params<T>& p, int64_t token) {
  uint32_t t = static_cast<uint32_t>(token), head = 0;
  if (p.norms > 1) {
    head = t;
    t /= p.norms, head -= t * p.norms;
  }
  const uint32_t b = t / p.length;
  return {b, t - b * p.length, static_cast<int>(head) * p.c};
}

template <int N>
__device__ __forceinline__ void rotate(float (&v)[N], const float (&cos)[N / 2], const float (&sin)[N / 2]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const float a = v[i], b = v[i + 1], co = cos[i / 2], si = sin[i / 2];
    v[i] = a * co - b * si;
    v[i + 1] = a * si + b * co;
  }
}

// The tables' values for pack `at` of position l.
template <int N, class T>
__device__ __forceinline__ void load_pairs(const Params<T>& p, int64_t l, int at, float (&cos)[N / 2],
                                           float (&sin)[N / 2]) {
  const int pair = at * N % p.head / 2;
  load_shared_row<N / 2>(p.cos + l * p.cos_stride + pair, cos);
  load_shared_row<N / 2>(p.sin + l * p.sin_stride + pair, sin);
}

// A group of `width` threads holds a token's queries and keys (Sides 2), with Chunks
// packs of each per thread.
template <class T, int N, int Chunks, int Sides>
__global__ void __launch_bounds__(512) qk_norm_rope_kernel(const Params<T> p, const int width) {
  __shared__ float scratch[2 * Sides * 16];
  const int groups = blockDim.x / width, group = threadIdx.x / width, lane = threadIdx.x % width;
  const int packs = p.c / N;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * groups + group;
  const bool live = token < p.tokens;  // a group without a token takes part only in the barrier
  const auto [b, l, first] = place_of(p, token);

  Pack<T, N> x[Sides][Chunks];
#pragma unroll
  for (int s = 0; s < Sides; ++s) {
    const T* from = p.side[s].x + b * p.side[s].x_batch + l * p.side[s].x_token + first;
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (live && at < packs) {
        x[s][j] = load<T, N>(from + at * N);
      } else {
#pragma unroll
        for (uint32_t& word : x[s][j].words) word = 0;
      }
    }
  }
  // If all packs of a thread have the same pairs, the tables' values are loaded together with those of x.
  const bool same = p.cos && width * N % p.head == 0;
  float cos[N / 2], sin[N / 2];
  if (same && live) load_pairs<N>(p, l, lane, cos, sin);

  float factor[Sides];
#pragma unroll
  for (int s = 0; s < Sides; ++s) {
    factor[s] = 0;
#pragma unroll
    for (int j = 0; j < Chunks; ++j)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float v = x[s][j].get(i);
        factor[s] = fmaf(v, v, factor[s]);
      }
  }
  group_sum(factor, width, scratch, 0);
#pragma unroll
  for (int s = 0; s < Sides; ++s)
    factor[s] = p.side[s].scale / sqrtf(factor[s] / static_cast<float>(p.c) + p.eps);

  if (!live) return;
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = j * width + lane;
    if (at >= packs) continue;
    if (p.cos && !same) load_pairs<N>(p, l, at, cos, sin);
#pragma unroll
    for (int s = 0; s < Sides; ++s) {
      const Side<T>& side = p.side[s];
      float v[N];
      if (side.weight) {
        load_shared_row<N>(side.weight + at * N, v);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = 1;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] *= x[s][j].get(i) * factor[s];
      if (p.cos) rotate<N>(v, cos, sin);
      store(side.y + b * side.y_batch + l * side.y_token + first + at * N, v, p.streaming);
    }
  }
}

// For any width, strides and alignment: one block takes a token of a side, two values at a time.
template <class T>
__global__ void __launch_bounds__(256) qk_norm_rope_any_kernel(const Params<T> p, const int sides) {
  __shared__ float scratch[33];
  for (int64_t r = blockIdx.x; r < p.tokens * sides; r += gridDim.x) {
    const int64_t token = r / sides;
    const auto [b, l, first] = place_of(p, token);
    const Side<T>& side = p.side[r % sides];
    const T* x = side.x + b * side.x_batch + l * side.x_token + first;
    T* y = side.y + b * side.y_batch + l * side.y_token + first;
    float squares = 0;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float v = as_float(x[j]);
      squares = fmaf(v, v, squares);
    }
    const float factor = side.scale / sqrtf(block_sum(squares, scratch) / static_cast<float>(p.c) + p.eps);
    const auto normed = [&](int j) {
      return (side.weight ? side.weight[j] : 1.0f) * (as_float(x[j]) * factor);
    };
    if (!p.cos) {
      for (int j = threadIdx.x; j < p.c; j += blockDim.x) y[j] = from_float<T>(normed(j));
      continue;
    }
    for (int pair = threadIdx.x; pair < p.c / 2; pair += blockDim.x) {
      const int j = 2 * pair, at = j % p.head / 2;
      float v[2] = {normed(j), normed(j + 1)};
      const float cos[1] = {p.cos[l * p.cos_stride + at]}, sin[1] = {p.sin[l * p.sin_stride + at]};
      rotate<2>(v, cos, sin);
      y[j] = from_float<T>(v[0]), y[j + 1] = from_float<T>(v[1]);
    }
  }
}

template <class T>
Side<T> side_of(const Tensor& x, const Tensor& y, const Tensor& weight, float scale) {
  return {static_cast<const T*>(x.data),
          static_cast<T*>(y.data),
          x.strides[0],
          x.strides[1],
          y.strides[0],
          y.strides[1],
          weight.defined() ? static_cast<const float*>(weight.data) : nullptr,
          scale};
}

}  // namespace

void qk_norm_rope_cuda(const QkNormRopeArgs& a, Stream& stream) {
  const char* op = "qk_norm_rope";
  cuda::dispatch_float(op, a.x.dtype, [&]<class T>() {
    constexpr int kValues = kPack<T>;
    Params<T> p{};
    const bool both = a.x2.defined();
    p.side[0] = side_of<T>(a.x, a.y, a.weight, a.scale);
    if (both) p.side[1] = side_of<T>(a.x2, a.y2, a.weight2, 1);
    if (a.cos.defined()) {
      p.cos = static_cast<const float*>(a.cos.data), p.cos_stride = a.cos.strides[0];
      p.sin = static_cast<const float*>(a.sin.data), p.sin_stride = a.sin.strides[0];
    }
    const int64_t norms = norms_of(a);
    p.length = static_cast<uint32_t>(a.x.dims[1]), p.norms = static_cast<uint32_t>(norms);
    p.tokens = a.x.dims[0] * a.x.dims[1] * norms;
    require(p.tokens < (int64_t{1} << 31), "{}: expected fewer than 2^31 tokens, got {}", op, p.tokens);
    p.c = static_cast<int>(a.x.dims[2] / norms);
    p.head = static_cast<int>(a.x.dims[2] / a.heads), p.eps = a.eps;
    if (p.tokens == 0 || p.c == 0) return;
    const bool fits = p.c % kValues == 0 &&
                      cuda::fits_packs(kValues, {&a.x, &a.y, &a.weight, &a.x2, &a.y2, &a.weight2}) &&
                      (!p.cos || (p.head % kValues == 0 && cuda::fits_packs(kValues / 2, {&a.cos, &a.sin})));
    const cuda::RowPlan plan = fits ? cuda::plan_row(p.c / kValues, p.tokens, stream, 5) : cuda::RowPlan{};
    p.streaming = cuda::streams(stream, p.tokens * p.c * static_cast<int64_t>(sizeof(T)));
    if (!plan.chunks)
      return cuda::launch(op, qk_norm_rope_any_kernel<T>,
                          {cuda::persistent_grid(stream, p.tokens * (both ? 2 : 1), 16), 256}, stream, p,
                          both ? 2 : 1);
    cuda::dispatch_chunks(plan.chunks, [&]<int Chunks>() {
      const auto threads = static_cast<unsigned>(plan.threads);
      const unsigned grid = cuda::blocks_for(p.tokens, plan.threads / plan.width);
      if (both)
        cuda::launch(op, qk_norm_rope_kernel<T, kValues, Chunks, 2>, {grid, threads}, stream, p, plan.width);
      else
        cuda::launch(op, qk_norm_rope_kernel<T, kValues, Chunks, 1>, {grid, threads}, stream, p, plan.width);
    });
  });
}

}  // namespace tachy::ops
