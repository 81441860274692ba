// Norms over the rows of [M, C], with what comes before and after them, in one pass over memory:
//   h = x [+ [gate[row] ·] u]  (stored in `sum` if given)
//   n = norm(h) [· weight] [+ bias] [· (1 + scale[row]) + shift[row]],  y = act(n)
// norm is RMSNorm, LayerNorm, or the VAE's channel norm h·√C / max(‖h‖, 1e-12).
//
// `width` threads share a row, which they hold in registers as it lies in memory (Chunks packs each), so the
// mean, the squared deviations and the result are three walks over registers. Each group of threads takes
// Rows rows at once: more loads in flight, and weight and modulation are fetched once for all of them.
//
//   block of 128 threads, width 32, Rows 2:   warp 0: rows 0, 4   warp 1: rows 1, 5   warp 2: rows 2, 6  …
#pragma once

#include "device/reduce.cuh"
#include "device/vec.cuh"

namespace tachy::device {

enum class RowNorm { rms, layer, channel };

template <class X, class U, class Y>
struct RowNormParams {
  const X* x;
  const U* u;  // with Add
  X* sum;      // optional
  Y* y;
  int64_t x_stride, u_stride, sum_stride, y_stride;
  const float *weight, *bias;         // optional
  const float *gate, *scale, *shift;  // optional; scale and shift together
  int64_t gate_stride, scale_stride, shift_stride;
  const int32_t* row;  // optional
  int64_t rows;
  int c;
  float eps;
};

template <RowNorm kKind>
__device__ __forceinline__ float norm_factor(float squares, int c, float eps) {
  if constexpr (kKind == RowNorm::channel)
    return sqrtf(static_cast<float>(c)) / fmaxf(sqrtf(squares), 1e-12f);
  else
    return 1.0f / sqrtf(squares / static_cast<float>(c) + eps);
}

// Chunks packs of N values each thread; Rows rows at once; blockDim.x / width groups a block.
template <RowNorm kKind, bool Add, Act kAct, int N, int Chunks, int Rows, class X, class U, class Y>
__global__ void __launch_bounds__(512) row_norm_kernel(const RowNormParams<X, U, Y> p, const int width) {
  __shared__ float scratch[2 * Rows * 16];
  const int groups = blockDim.x / width, group = threadIdx.x / width, lane = threadIdx.x % width;
  const int packs = p.c / N;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * groups * Rows + group;

  Pack<X, N> h[Rows][Chunks];
#pragma unroll
  for (int k = 0; k < Rows; ++k) {
    const int64_t row = first + static_cast<int64_t>(k) * groups;
    const X* x = p.x + row * p.x_stride;
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (row < p.rows && at < packs) {
        h[k][j] = load<X, N>(x + at * N);
      } else {
#pragma unroll
        for (uint32_t& word : h[k][j].words) word = 0;
      }
    }
  }
  int64_t part[Rows];
#pragma unroll
  for (int k = 0; k < Rows; ++k) {
    const int64_t row = first + static_cast<int64_t>(k) * groups;
    part[k] = p.row && row < p.rows ? p.row[row] : 0;
  }

  if constexpr (Add) {
    Pack<U, N> u[Rows][Chunks];
#pragma unroll
    for (int k = 0; k < Rows; ++k) {
      const int64_t row = first + static_cast<int64_t>(k) * groups;
#pragma unroll
      for (int j = 0; j < Chunks; ++j)
        if (row < p.rows && j * width + lane < packs)
          u[k][j] = load<U, N>(p.u + row * p.u_stride + (j * width + lane) * N);
    }
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (at >= packs) continue;
      float gate[N];
#pragma unroll
      for (int i = 0; i < N; ++i) gate[i] = 1;
#pragma unroll
      for (int k = 0; k < Rows; ++k) {
        const int64_t row = first + static_cast<int64_t>(k) * groups;
        if (row >= p.rows) continue;
        if (p.gate && (k == 0 || part[k] != part[k > 0 ? k - 1 : 0]))
          load_shared_row<N>(p.gate + part[k] * p.gate_stride + at * N, gate);
        float v[N];
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = fmaf(gate[i], u[k][j].get(i), h[k][j].get(i));
        h[k][j].set(v);
        if (p.sum) store(p.sum + row * p.sum_stride + at * N, h[k][j]);
      }
    }
  }

  float mean[Rows], factor[Rows];
  if constexpr (kKind == RowNorm::layer) {
#pragma unroll
    for (int k = 0; k < Rows; ++k) {
      mean[k] = 0;
#pragma unroll
      for (int j = 0; j < Chunks; ++j)
#pragma unroll
        for (int i = 0; i < N; ++i) mean[k] += h[k][j].get(i);
    }
    group_sum(mean, width, scratch, 0);
#pragma unroll
    for (int k = 0; k < Rows; ++k) mean[k] /= static_cast<float>(p.c);
  } else {
#pragma unroll
    for (int k = 0; k < Rows; ++k) mean[k] = 0;
  }
#pragma unroll
  for (int k = 0; k < Rows; ++k) {
    factor[k] = 0;
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      if (kKind == RowNorm::layer && j * width + lane >= packs) continue;  // zeros only there
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = h[k][j].get(i) - mean[k];
        factor[k] = fmaf(d, d, factor[k]);
      }
    }
  }
  group_sum(factor, width, scratch, 1);
#pragma unroll
  for (int k = 0; k < Rows; ++k) factor[k] = norm_factor<kKind>(factor[k], p.c, p.eps);

#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = j * width + lane;
    if (at >= packs) continue;
    float weight[N], bias[N], scale[N], shift[N];
#pragma unroll
    for (int i = 0; i < N; ++i) weight[i] = 1, bias[i] = 0, scale[i] = 0, shift[i] = 0;
    if (p.weight) load_shared_row<N>(p.weight + at * N, weight);
    if (p.bias) load_shared_row<N>(p.bias + at * N, bias);
#pragma unroll
    for (int k = 0; k < Rows; ++k) {
      const int64_t row = first + static_cast<int64_t>(k) * groups;
      if (row >= p.rows) continue;
      if (p.scale && (k == 0 || part[k] != part[k > 0 ? k - 1 : 0])) {
        load_shared_row<N>(p.scale + part[k] * p.scale_stride + at * N, scale);
        load_shared_row<N>(p.shift + part[k] * p.shift_stride + at * N, shift);
      }
      float v[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v[i] = (h[k][j].get(i) - mean[k]) * factor[k] * weight[i] + bias[i];
        if constexpr (kKind != RowNorm::channel) v[i] = fmaf(v[i], 1.0f + scale[i], shift[i]);
        v[i] = activate<sizeof(Y) == 2>(v[i], kAct);
      }
      store(p.y + row * p.y_stride + at * N, v);
    }
  }
}

// Any C, strides and alignment: a block a row, value by value, the row read again for each walk.
template <RowNorm kKind, bool Add, Act kAct, class X, class U, class Y>
__global__ void __launch_bounds__(256) row_norm_any_kernel(const RowNormParams<X, U, Y> p) {
  __shared__ float scratch[33];
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t part = p.row ? p.row[row] : 0;
    const X* x = p.x + row * p.x_stride;
    const auto sum_of = [&](int j) {  // what is normalised; in a pass over it a thread meets its own values
      if constexpr (Add) {
        const float gate = p.gate ? p.gate[part * p.gate_stride + j] : 1.0f;
        return rounded<X>(fmaf(gate, as_float(p.u[row * p.u_stride + j]), as_float(x[j])));
      } else {
        return as_float(x[j]);
      }
    };
    float mean = 0, squares = 0;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float v = sum_of(j);
      if (Add && p.sum) p.sum[row * p.sum_stride + j] = from_float<X>(v);
      mean += v;
    }
    const auto value = [&](int j) {
      return Add && p.sum ? as_float(p.sum[row * p.sum_stride + j]) : sum_of(j);
    };
    mean = kKind == RowNorm::layer ? block_sum(mean, scratch) / static_cast<float>(p.c) : 0.0f;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float d = value(j) - mean;
      squares = fmaf(d, d, squares);
    }
    const float factor = norm_factor<kKind>(block_sum(squares, scratch), p.c, p.eps);
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      float v = (value(j) - mean) * factor * (p.weight ? p.weight[j] : 1.0f) + (p.bias ? p.bias[j] : 0.0f);
      if (p.scale) v = fmaf(v, 1.0f + p.scale[part * p.scale_stride + j], p.shift[part * p.shift_stride + j]);
      p.y[row * p.y_stride + j] = from_float<Y>(activate<sizeof(Y) == 2>(v, kAct));
    }
  }
}

}  // namespace tachy::device
