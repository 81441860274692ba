// Backward of the norms over the rows of [M, C] (device/row_norm.cuh), with the steps around them. n is the
// normalised row, and u the gradient that reaches (n · weight + bias) · (1 + scale[row]):
//   u = dy, or ropeᵀ(dy), or dy · silu'(n · weight);   g = u · (1 + scale[row]) · weight
//   dx = r·(g − [mean(g)] − n·mean(g·n)) [+ dsum]
// All gradients of parameters follow from two sums over the rows that share a row of the table (one without):
//   P = Σ u·n, Q = Σ u:   dweight = Σ (1 + scale)·P, dbias = Σ (1 + scale)·Q, dscale = weight·P + bias·Q, dshift = Q
//
// There is one pass: `width` threads share a row, which they hold in registers, while the next one is being
// loaded. Each thread keeps P and Q of its own columns over all its rows, so the order of the sums depends
// only on shape and GPU. The kernels that add them up, and those for any width and alignment, are in
// row_norm_backward_any.cuh.
#pragma once

#include "device/reduce.cuh"
#include "device/vec.cuh"

namespace tachy::device {

struct RowNormBackwardParams {
  const void *x, *dy, *dsum;  // dsum is optional
  void* dx;
  int64_t x_stride, dy_stride, dsum_stride, dx_stride;  // strides of rows
  int64_t x_batch, dy_batch, dx_batch;                  // strides of batches of `length` rows
  uint32_t length;                                      // 0 means one batch
  const float *weight, *bias, *scale;                   // optional
  int64_t scale_stride;
  const int32_t* row;      // optional
  const float *cos, *sin;  // optional, [length, head/2]
  int64_t cos_stride, sin_stride;
  float2* stats;   // [M] mean and r of each row, for the sums down the columns; or null
  float* partial;  // [tables, slots, 2, C]: P and Q; or null
  int slots;
  int64_t rows;
  int c, head, tables;  // tables is the number of rows of scale, or 1 without it
  float eps;
  bool channel, silu;                        // channel: the norm is x·√C / max(‖x‖, 1e-12)
  bool with_q;                               // Q is needed
  bool streaming;                            // dx is too large for the cache
  float *dweight, *dbias, *dscale, *dshift;  // optional
  int64_t dscale_stride, dshift_stride;

  __device__ int64_t at(int64_t i, int64_t batch, int64_t stride) const {
    if (length == 0) return i * stride;
    const auto row = static_cast<uint32_t>(i);  // the host makes sure that it fits
    return row / length * batch + row % length * stride;
  }
  __device__ int64_t position(int64_t i) const { return length ? static_cast<uint32_t>(i) % length : i; }
};

// The derivative of silu, to float32's accuracy, since its sums over rows are float32.
__device__ __forceinline__ float silu_slope(float x) {
  const Sigmoid s(x);
  return s.value * fmaf(x, s.rest, 1.0f);
}

// r of a row from Σ (x − mean)², and whether r is constant in x (a channel norm below its clamp).
__device__ __forceinline__ float backward_factor(const RowNormBackwardParams& p, float squares,
                                                 bool& constant) {
  constant = false;
  if (!p.channel) return 1.0f / sqrtf(squares / static_cast<float>(p.c) + p.eps);
  const float norm = sqrtf(squares);
  constant = norm < 1e-12f;
  return sqrtf(static_cast<float>(p.c)) / fmaxf(norm, 1e-12f);
}

// The case for which a kernel is compiled, so that the usual ones carry no code of the
// others; `any` covers everything.
enum class Around { plain, modulated, rope, silu, any };

// K sums over the threads of a row: either lanes of a warp or the whole block. `slots` has 16·K floats.
template <int K>
__device__ __forceinline__ void row_sum(float (&v)[K], int width, float* slots) {
  if (width < 32) {
    for (int offset = width / 2; offset; offset >>= 1)
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(0xffffffffu, v[k], offset);
    return;
  }
#pragma unroll
  for (int k = 0; k < K; ++k) v[k] = warp_sum(v[k]);
  if (width == 32) return;
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int k = 0; k < K; ++k) slots[threadIdx.x / 32 * K + k] = v[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) v[k] = 0;
  for (int w = 0; w < width / 32; ++w)
#pragma unroll
    for (int k = 0; k < K; ++k) v[k] += slots[w * K + k];
}

// With two chunks of 16-bit values, two blocks of 320 threads (5120 channels) must run at once.
template <class T, int Chunks>
inline constexpr int kMostThreads = sizeof(T) == 2 && Chunks == 2 ? 320 : 512;

// A row longer than a warp has a block to itself.
template <class T, int N, int Chunks, bool Centred, Around kAround>
__global__ void __launch_bounds__(kMostThreads<T, Chunks>, kMostThreads<T, Chunks> < 512 ? 2 : 1)
    row_norm_backward_kernel(const RowNormBackwardParams p, const int width) {
  constexpr bool kAny = kAround == Around::any, kRope = kAny || kAround == Around::rope,
                 kSilu = kAny || kAround == Around::silu, kScaled = kAny || kAround == Around::modulated,
                 kExtra = kAny || kAround == Around::plain;
  __shared__ float slots[2][3 * 16];
  const int groups = blockDim.x / width, group = threadIdx.x / width, lane = threadIdx.x % width;
  const int packs = p.c / N;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups,
                start = static_cast<int64_t>(blockIdx.x) * groups;
  const float inverse = 1.0f / static_cast<float>(p.c);
  const auto place = [&](int64_t i, int64_t batch, int64_t stride) {
    if constexpr (kRope) return p.at(i, batch, stride);
    return i * stride;
  };

  Pack<T, N> x[Chunks], dy[Chunks];
  const auto fetch = [&](int64_t i) {
    const T* from_x = static_cast<const T*>(p.x) + place(i, p.x_batch, p.x_stride);
    const T* from_dy = static_cast<const T*>(p.dy) + place(i, p.dy_batch, p.dy_stride);
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (i < p.rows && at < packs) {
        x[j] = load<T, N>(from_x + at * N), dy[j] = load<T, N>(from_dy + at * N);
      } else {
#pragma unroll
        for (int w = 0; w < Pack<T, N>::kWords; ++w) x[j].words[w] = dy[j].words[w] = 0;
      }
    }
  };
  float sum_p[Chunks][N], sum_q[Centred ? Chunks : 1][N];
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
#pragma unroll
    for (int i = 0; i < N; ++i) sum_p[j][i] = 0, sum_q[Centred ? j : 0][i] = 0;
  // Writes the sums so far to this group's slot for a row of the table; with several rows they are added to
  // what is there.
  const auto flush = [&](int64_t table) {
    float* to = p.partial + (table * p.slots + start + group) * 2 * p.c;
    const bool more = kScaled && p.row;
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (at >= packs) continue;
#pragma unroll
      for (int k = 0; k < N; k += 2) {
        auto* first = reinterpret_cast<float2*>(to + at * N + k);
        auto* second = reinterpret_cast<float2*>(to + p.c + at * N + k);
        const float2 none = make_float2(0, 0), old_p = more ? *first : none;
        *first = make_float2(old_p.x + sum_p[j][k], old_p.y + sum_p[j][k + 1]);
        sum_p[j][k] = sum_p[j][k + 1] = 0;
        if constexpr (Centred) {
          const float2 old_q = more ? *second : none;
          *second = make_float2(old_q.x + sum_q[j][k], old_q.y + sum_q[j][k + 1]);
          sum_q[j][k] = sum_q[j][k + 1] = 0;
        }
      }
    }
  };
  int64_t table = 0;

  fetch(start + group);
  for (int64_t base = start; base < p.rows; base += step) {
    const int64_t i = base + group;
    const bool inside = i < p.rows;
    Pack<T, N> h[Chunks], extra[Chunks];
    float u[Chunks][N];
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      h[j] = x[j];
#pragma unroll
      for (int k = 0; k < N; ++k) u[j][k] = dy[j].get(k);
      if (kExtra && p.dsum && inside && j * width + lane < packs)
        extra[j] = load<T, N>(static_cast<const T*>(p.dsum) + i * p.dsum_stride + (j * width + lane) * N);
    }
    fetch(i + step);

    float first[1] = {0};
#pragma unroll
    for (int j = 0; j < Chunks; ++j)
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = h[j].get(k);
        first[0] = Centred ? first[0] + v : fmaf(v, v, first[0]);
      }
    row_sum(first, width, slots[0]);
    bool constant = false;
    const float mean = Centred ? first[0] * inverse : 0.0f;
    float r = Centred ? 0.0f : backward_factor(p, first[0], constant);

    // Computes u and g, and the sums of g·(x − mean) and, if centred, of g and (x − mean)².
    const int64_t part = kScaled && p.row && inside ? p.row[i] : 0;
    float second[Centred ? 3 : 1] = {}, g[Chunks][N];
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (at >= packs) {
#pragma unroll
        for (int k = 0; k < N; ++k) g[j][k] = 0;
        continue;
      }
      if (kRope && p.cos && inside) {
        const int64_t l = p.position(i);
        const int pair = at * N % p.head / 2;
        float cos[N / 2], sin[N / 2];
        load_shared_row<N / 2>(p.cos + l * p.cos_stride + pair, cos);
        load_shared_row<N / 2>(p.sin + l * p.sin_stride + pair, sin);
#pragma unroll
        for (int k = 0; k < N; k += 2) {
          const float a = u[j][k], b = u[j][k + 1];
          u[j][k] = a * cos[k / 2] + b * sin[k / 2];
          u[j][k + 1] = b * cos[k / 2] - a * sin[k / 2];
        }
      }
      float weight[N];
#pragma unroll
      for (int k = 0; k < N; ++k) weight[k] = 1;
      if (p.weight) load_shared_row<N>(p.weight + at * N, weight);
      if (!Centred && kSilu && p.silu)
#pragma unroll
        for (int k = 0; k < N; ++k) u[j][k] *= silu_slope(h[j].get(k) * r * weight[k]);
      if (kScaled && p.scale) {
        float scale[N];
        load_shared_row<N>(p.scale + part * p.scale_stride + at * N, scale);
#pragma unroll
        for (int k = 0; k < N; ++k) weight[k] *= 1.0f + scale[k];
      }
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float away = h[j].get(k) - mean;
        g[j][k] = u[j][k] * weight[k];
        second[0] = fmaf(g[j][k], away, second[0]);
        if constexpr (Centred) second[1] += g[j][k], second[2] = fmaf(away, away, second[2]);
      }
    }
    row_sum(second, width, slots[1]);
    if constexpr (Centred) r = backward_factor(p, second[2], constant);
    const float mean_g = Centred ? second[Centred ? 1 : 0] * inverse : 0.0f;
    const float slope = constant ? 0.0f : second[0] * r * inverse;  // mean(g·n)
    if (!inside) continue;
    if (kScaled && part != table) {
      if (p.partial) flush(table);
      table = part;
    }
    T* dx = static_cast<T*>(p.dx) + place(i, p.dx_batch, p.dx_stride);
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      const int at = j * width + lane;
      if (at >= packs) continue;
      float v[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float n = (h[j].get(k) - mean) * r;
        sum_p[j][k] = fmaf(u[j][k], n, sum_p[j][k]);
        if constexpr (Centred) sum_q[j][k] += u[j][k];
        v[k] = r * fmaf(-n, slope, g[j][k] - mean_g);
      }
      if (kExtra && p.dsum)
#pragma unroll
        for (int k = 0; k < N; ++k) v[k] += extra[j].get(k);
      store(dx + at * N, v, p.streaming);
    }
    if (p.stats && lane == 0) p.stats[i] = make_float2(mean, r);
  }
  if (p.partial) flush(table);
}

}  // namespace tachy::device
