// Attention's backward pass for every case on any GPU, with float32 arithmetic and any head dim, strides,
// biases and alignment. The first of three kernel launches computes delta of each query; the other two run a
// kernel whose blocks own 64 rows (queries for dq, keys for dk and dv) and 128 columns of the result and go
// through the rows of the other side, 64 at a time. Wider heads recompute the scores for each 128 columns. It
// is not meant to be fast.
#include "cuda/dispatch.h"
#include "device/reduce.cuh"
#include "ops/attention/attention_cuda.h"

namespace tachy::ops {
namespace {

using device::as_float;
using device::from_float;

constexpr int kTile = 64, kDepth = 32, kColumns = 128, kSlab = 16;

struct View {
  void* data;
  int64_t batch, row, head;
};
struct Plain {
  View q, k, v, out, dout, dq, dk, dv;
  const float *key_bias = nullptr, *bias = nullptr, *lse = nullptr;
  float* delta = nullptr;  // scratch [B, H, Lq]
  int64_t key_bias_batch = 0, bias_head = 0, bias_row = 0, lse_batch = 0, lse_head = 0, offset = 0;
  int lq = 0, lk = 0, d = 0, heads = 0;
  float scale = 1;
  bool causal = false;
};

template <class T>
__device__ T* at(const View& v, int64_t b, int64_t row, int64_t head) {
  return static_cast<T*>(v.data) + b * v.batch + row * v.row + head * v.head;
}

template <class T>
__global__ void __launch_bounds__(256) delta_kernel(const Plain p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int head = blockIdx.y, b = blockIdx.z;
  if (i >= p.lq) return;
  const T *out = at<T>(p.out, b, i, head), *dout = at<T>(p.dout, b, i, head);
  float sum = 0;
  for (int c = threadIdx.x % 32; c < p.d; c += 32) sum = fmaf(as_float(dout[c]), as_float(out[c]), sum);
  sum = device::warp_sum(sum);
  if (threadIdx.x % 32 == 0) p.delta[(static_cast<int64_t>(b) * p.heads + head) * p.lq + i] = sum;
}

// s[r][n] = Σ_c own[4ty + r]·other[4tx + n] for the rows of two tiles.
template <class T>
__device__ void tile_products(float (&s)[4][4], const View& own, int first, int own_rows, const View& other,
                              int from, int other_rows, int b, int head, int d, float (*left)[kTile + 4],
                              float (*right)[kTile + 4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = 0;
  for (int depth = 0; depth < d; depth += kDepth) {
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kDepth; i += 256) {
      const int c = i % kDepth, row = i / kDepth;
      const bool inside = depth + c < d;
      left[c][row] =
          inside && first + row < own_rows ? as_float(at<T>(own, b, first + row, head)[depth + c]) : 0;
      right[c][row] =
          inside && from + row < other_rows ? as_float(at<T>(other, b, from + row, head)[depth + c]) : 0;
    }
    __syncthreads();
#pragma unroll 8
    for (int c = 0; c < kDepth; ++c) {
      const float4 l = *reinterpret_cast<const float4*>(&left[c][4 * ty]);
      const float4 r = *reinterpret_cast<const float4*>(&right[c][4 * tx]);
      const float lv[4] = {l.x, l.y, l.z, l.w}, rv[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
      for (int i = 0; i < 16; ++i) s[i / 4][i % 4] = fmaf(lv[i / 4], rv[i % 4], s[i / 4][i % 4]);
    }
  }
}

// o[r][c] += Σ_j weights[4ty + r][j]·other[from + j][column + tx + 16c].
template <class T>
__device__ void add_rows(float (&o)[4][8], const float (&weights)[4][4], const View& other, int from,
                         int rows, int b, int head, int d, int column, float (*tile)[kTile + 1],
                         float (*slab)[kColumns]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 16; ++i) tile[4 * ty + i / 4][4 * tx + i % 4] = weights[i / 4][i % 4];
  for (int first = 0; first < kTile; first += kSlab) {
    __syncthreads();
    for (int i = threadIdx.x; i < kSlab * kColumns; i += 256) {
      const int c = i % kColumns, j = from + first + i / kColumns;
      slab[i / kColumns][c] = column + c < d && j < rows ? as_float(at<T>(other, b, j, head)[column + c]) : 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kSlab; ++j) {
      float x[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) x[c] = slab[j][tx + 16 * c];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float weight = tile[4 * ty + r][first + j];
#pragma unroll
        for (int c = 0; c < 8; ++c) o[r][c] = fmaf(weight, x[c], o[r][c]);
      }
    }
  }
}

template <class T>
__device__ void store_tile(const float (&o)[4][8], float factor, const View& to, int first, int rows, int b,
                           int head, int d, int column) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int r = 0; r < 4; ++r) {
    if (first + 4 * ty + r >= rows) continue;
    T* out = at<T>(to, b, first + 4 * ty + r, head);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int where = column + tx + 16 * c;
      if (where < d) out[where] = from_float<T>(o[r][c] * factor);
    }
  }
}

// A block has 256 threads as 16 x 16. With kKeys it owns keys.
template <class T, bool kKeys>
__global__ void __launch_bounds__(256) gradient_kernel(const Plain p) {
  __shared__ float left[kDepth][kTile + 4], right[kDepth][kTile + 4];
  __shared__ float tile[kTile][kTile + 1], slab[kSlab][kColumns];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, b = blockIdx.z;
  const int head = blockIdx.y % p.heads, column = blockIdx.y / p.heads * kColumns, first = blockIdx.x * kTile;
  const int own_rows = kKeys ? p.lk : p.lq, other_rows = kKeys ? p.lq : p.lk;
  const float* lse = p.lse + b * p.lse_batch + head * p.lse_head;
  const float* delta = p.delta + (static_cast<int64_t>(b) * p.heads + head) * p.lq;
  float o[4][8] = {}, dv[4][8] = {};
  for (int from = 0; from < other_rows; from += kTile) {
    if (p.causal && (kKeys ? from + kTile - 1 + p.offset < first : from > first + kTile - 1 + p.offset))
      continue;
    float s[4][4], e[4][4];
    tile_products<T>(s, kKeys ? p.k : p.q, first, own_rows, kKeys ? p.q : p.k, from, other_rows, b, head, p.d,
                     left, right);
    tile_products<T>(e, kKeys ? p.v : p.dout, first, own_rows, kKeys ? p.dout : p.v, from, other_rows, b,
                     head, p.d, left, right);
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int own = first + 4 * ty + n / 4, other = from + 4 * tx + n % 4;
      const int i = kKeys ? other : own, j = kKeys ? own : other;
      float& weight = s[n / 4][n % 4];
      float& t = e[n / 4][n % 4];
      const bool seen = i < p.lq && j < p.lk && !(p.causal && j > i + p.offset) && !isinf(lse[i]);
      if (!seen) {
        weight = t = 0;
        continue;
      }
      float score = weight * p.scale;
      if (p.key_bias) score += p.key_bias[b * p.key_bias_batch + j];
      if (p.bias) score += p.bias[head * p.bias_head + i * p.bias_row + j];
      weight = expf(score - lse[i]);
      t = weight * (t - delta[i]);
    }
    add_rows<T>(o, e, kKeys ? p.q : p.k, from, other_rows, b, head, p.d, column, tile, slab);
    if constexpr (kKeys) add_rows<T>(dv, s, p.dout, from, other_rows, b, head, p.d, column, tile, slab);
  }
  store_tile<T>(o, p.scale, kKeys ? p.dk : p.dq, first, own_rows, b, head, p.d, column);
  if constexpr (kKeys) store_tile<T>(dv, 1, p.dv, first, own_rows, b, head, p.d, column);
}

View view_of(const Tensor& t) { return {t.data, t.strides[0], t.strides[1], t.strides[2]}; }

}  // namespace

void attention_backward_plain_cuda(const AttentionBackwardArgs& a, Stream& stream) {
  const AttentionArgs& f = a.forward;
  Plain p{view_of(f.q),    view_of(f.k),  view_of(f.v),  view_of(f.out),
          view_of(a.dout), view_of(a.dq), view_of(a.dk), view_of(a.dv)};
  p.lq = static_cast<int>(f.q.dims[1]), p.lk = static_cast<int>(f.k.dims[1]);
  p.d = static_cast<int>(f.q.dims[3]), p.heads = static_cast<int>(f.q.dims[2]);
  p.offset = f.causal_offset, p.scale = f.scale, p.causal = f.causal;
  if (f.key_bias.defined())
    p.key_bias = static_cast<const float*>(f.key_bias.data), p.key_bias_batch = f.key_bias.strides[0];
  if (f.bias.defined())
    p.bias = static_cast<const float*>(f.bias.data), p.bias_head = f.bias.strides[0],
    p.bias_row = f.bias.strides[1];
  p.lse = static_cast<const float*>(f.lse.data), p.lse_batch = f.lse.strides[0],
  p.lse_head = f.lse.strides[1];
  const int64_t batch = f.q.dims[0];
  const ArenaScope scope(*stream.arena);
  p.delta =
      static_cast<float*>(stream.arena->bytes(static_cast<size_t>(batch * p.heads * p.lq) * sizeof(float)));
  if (stream.measuring() || batch * p.heads == 0) return;
  const auto heads = static_cast<unsigned>(p.heads), batches = static_cast<unsigned>(batch);
  const unsigned columns = heads * cuda::blocks_for(p.d, kColumns);
  cuda::dispatch_float("attention_backward", f.q.dtype, [&]<class T>() {
    const char* op = "attention_backward (plain)";
    if (p.lq > 0) {
      cuda::launch(op, delta_kernel<T>, {dim3(cuda::blocks_for(p.lq, 8), heads, batches), dim3(256)}, stream,
                   p);
      cuda::launch(op, gradient_kernel<T, false>,
                   {dim3(cuda::blocks_for(p.lq, kTile), columns, batches), dim3(256)}, stream, p);
    }
    cuda::launch(op, gradient_kernel<T, true>,
                 {dim3(cuda::blocks_for(p.lk, kTile), columns, batches), dim3(256)}, stream, p);
  });
}

}  // namespace tachy::ops
