// Linear attention for every case on any GPU, with float32 arithmetic and any head dim. A warp finds the largest value
// and the sum of a token's exponentials; then blocks of 16 x 16 threads compute tiles of 64 x 64, a thread 4 x 4 of
// them, first of φ(k)ᵀ·v and then of φ(q) times that. It is not meant to be fast.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "device/reduce.cuh"
#include "ops/linear_attention/linear_attention_impl.h"

namespace tachy::ops {
namespace {

constexpr int kTile = 64, kDepth = 32;

struct PlainRows {
  const void* data;
  int64_t batch, row, head;  // strides
  int tokens;
  float scale;
  const float2* stats;  // [B, H, tokens]: the largest of a token's values, and 1 over the sum of exponentials
};

template <class T>
__device__ const T* row_of(const PlainRows& x, int64_t b, int64_t head, int64_t token) {
  return static_cast<const T*>(x.data) + b * x.batch + token * x.row + head * x.head;
}

// Grid: (tokens / 8, heads, batch).
template <class T>
__global__ void __launch_bounds__(256) stats_kernel(PlainRows x, float2* stats, int d) {
  const int token = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t head = blockIdx.y, b = blockIdx.z;
  if (token >= x.tokens) return;
  const T* values = row_of<T>(x, b, head, token);
  float most = -INFINITY, total = 0;
  for (int c = lane; c < d; c += 32) most = fmaxf(most, device::as_float(values[c]) * x.scale);
  most = device::warp_max(most);
  for (int c = lane; c < d; c += 32) total += expf(device::as_float(values[c]) * x.scale - most);
  total = device::warp_sum(total);
  if (lane == 0) stats[(b * gridDim.y + head) * x.tokens + token] = make_float2(most, 1 / total);
}

template <class T>
__device__ float feature(const PlainRows& x, int64_t b, int64_t head, int64_t list, int token, int c, int d) {
  if (token >= x.tokens || c >= d) return 0;
  const float2 stats = x.stats[list * x.tokens + token];
  return expf(device::as_float(row_of<T>(x, b, head, token)[c]) * x.scale - stats.x) * stats.y;
}

// s += aᵀ·b over kDepth rows of both.
__device__ inline void add_products(float (&s)[4][4], const float (&a)[kDepth][kTile + 4],
                                    const float (&b)[kDepth][kTile + 4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 8
  for (int i = 0; i < kDepth; ++i)
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n) s[m][n] = fmaf(a[i][4 * ty + m], b[i][4 * tx + n], s[m][n]);
}

// Grid: (tiles of d x d, heads, batch). A table has d rows of d values, and a row of Σφ.
template <class T>
__global__ void __launch_bounds__(256) plain_tables_kernel(PlainRows k, PlainRows v, float* tables, int d) {
  __shared__ float as[kDepth][kTile + 4], bs[kDepth][kTile + 4];
  const int across = (d + kTile - 1) / kTile, row = blockIdx.x / across * kTile,
            column = blockIdx.x % across * kTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t head = blockIdx.y, b = blockIdx.z, list = b * gridDim.y + head;
  float s[4][4] = {}, sum = 0;
  for (int first = 0; first < k.tokens; first += kDepth) {
    __syncthreads();
    for (int i = threadIdx.x; i < kDepth * kTile; i += 256) {
      const int token = first + i / kTile, c = i % kTile;
      as[i / kTile][c] = feature<T>(k, b, head, list, token, row + c, d);
      bs[i / kTile][c] =
          token < v.tokens && column + c < d ? device::as_float(row_of<T>(v, b, head, token)[column + c]) : 0;
    }
    __syncthreads();
    if (threadIdx.x < kTile)
      for (int i = 0; i < kDepth; ++i) sum += as[i][threadIdx.x];
    add_products(s, as, bs);
  }
  float* table = tables + list * d * (d + 1);
  for (int m = 0; m < 4; ++m)
    for (int n = 0; n < 4; ++n) {
      const int r = row + 4 * ty + m, c = column + 4 * tx + n;
      if (r < d && c < d) table[int64_t{r} * d + c] = s[m][n];
    }
  if (column == 0 && threadIdx.x < kTile && row + static_cast<int>(threadIdx.x) < d)
    table[int64_t{d} * d + row + threadIdx.x] = sum;
}

// Grid: (tokens / kTile, columns / kTile · heads, batch).
template <class T>
__global__ void __launch_bounds__(256)
    plain_out_kernel(PlainRows q, PlainRows out, const float* tables, int d, int heads) {
  __shared__ float as[kDepth][kTile + 4], bs[kDepth][kTile + 4];
  __shared__ float totals[kTile];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int64_t head = blockIdx.y % heads, b = blockIdx.z, list = b * heads + head;
  const int first = blockIdx.x * kTile, column = blockIdx.y / heads * kTile;
  const float* table = tables + list * d * (d + 1);
  float s[4][4] = {}, total = 1e-5f;
  for (int c0 = 0; c0 < d; c0 += kDepth) {
    __syncthreads();
    for (int i = threadIdx.x; i < kDepth * kTile; i += 256) {
      const int c = c0 + i / kTile, other = i % kTile;
      as[i / kTile][other] = feature<T>(q, b, head, list, first + other, c, d);
      bs[i / kTile][other] = c < d && column + other < d ? table[int64_t{c} * d + column + other] : 0;
    }
    __syncthreads();
    if (threadIdx.x < kTile)
      for (int i = 0; i < kDepth && c0 + i < d; ++i)
        total += as[i][threadIdx.x] * table[int64_t{d} * d + c0 + i];
    add_products(s, as, bs);
  }
  if (threadIdx.x < kTile) totals[threadIdx.x] = total;
  __syncthreads();
  for (int m = 0; m < 4; ++m) {
    const int token = first + 4 * ty + m;
    if (token >= out.tokens) continue;
    T* y = const_cast<T*>(row_of<T>(out, b, head, token));
    for (int n = 0; n < 4; ++n)
      if (const int c = column + 4 * tx + n; c < d)
        y[c] = device::from_float<T>(s[m][n] / totals[4 * ty + m]);
  }
}

}  // namespace

void linear_attention_plain_cuda(const LinearAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dims[0], lq = a.q.dims[1], lk = a.k.dims[1], h = a.q.dims[2], d = a.q.dims[3];
  ArenaScope scope(*stream.arena);
  const auto heads = static_cast<size_t>(b * h);
  auto* q_stats = static_cast<float2*>(stream.arena->bytes(heads * static_cast<size_t>(lq) * sizeof(float2)));
  auto* k_stats = static_cast<float2*>(stream.arena->bytes(heads * static_cast<size_t>(lk) * sizeof(float2)));
  auto* tables =
      static_cast<float*>(stream.arena->bytes(heads * static_cast<size_t>(d * (d + 1)) * sizeof(float)));
  if (stream.measuring() || b * h == 0) return;
  const auto rows = [](const Tensor& t, float scale, const float2* stats) {
    return PlainRows{t.data, t.strides[0], t.strides[1], t.strides[2], static_cast<int>(t.dims[1]),
                     scale,  stats};
  };
  const PlainRows q = rows(a.q, a.q_scale, q_stats), k = rows(a.k, 1, k_stats), v = rows(a.v, 1, nullptr),
                  out = rows(a.out, 1, nullptr);
  const auto grid = [&](int64_t x, int64_t y) {
    return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(b));
  };
  const int64_t across = (d + kTile - 1) / kTile;
  const int width = static_cast<int>(d);
  cuda::dispatch_float("linear_attention", a.q.dtype, [&]<class T>() {
    cuda::launch("linear_attention (plain, k)", stats_kernel<T>,
                 {.grid = grid((lk + 7) / 8, h), .block = dim3(256)}, stream, k, k_stats, width);
    cuda::launch("linear_attention (plain, q)", stats_kernel<T>,
                 {.grid = grid((lq + 7) / 8, h), .block = dim3(256)}, stream, q, q_stats, width);
    cuda::launch("linear_attention (plain, tables)", plain_tables_kernel<T>,
                 {.grid = grid(across * across, h), .block = dim3(256)}, stream, k, v, tables, width);
    cuda::launch("linear_attention (plain)", plain_out_kernel<T>,
                 {.grid = grid((lq + kTile - 1) / kTile, across * h), .block = dim3(256)}, stream, q, out,
                 static_cast<const float*>(tables), width, static_cast<int>(h));
  });
}

}  // namespace tachy::ops
