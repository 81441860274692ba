// Attention for every case on any GPU: float32 arithmetic, any head dim, strides, biases and alignment. A
// block takes 64 queries of one head and 128 of its output columns; keys pass 64 at a time, the head dim 32
// at a time, through shared memory. Wider heads repeat the scores for each 128 columns. Not meant to be fast.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/attention/attention_cuda.h"

namespace tachy::ops {
namespace {

using device::from_float;

constexpr int kTile = 64, kDepth = 32, kColumns = 128, kSlab = 16;

struct View {
  const void* data;
  int64_t batch, row, head;
};
struct Plain {
  View q, k, v, out;
  const float *key_bias = nullptr, *bias = nullptr;
  float* lse = nullptr;
  int64_t key_bias_batch = 0, bias_head = 0, bias_row = 0, lse_batch = 0, lse_head = 0, offset = 0;
  int lq = 0, lk = 0, d = 0, heads = 0;
  float scale = 1;
  bool causal = false, accumulate = false;
};

template <class T>
__device__ const T* at(const View& v, int64_t b, int64_t row, int64_t head) {
  return static_cast<const T*>(v.data) + b * v.batch + row * v.row + head * v.head;
}

// 256 threads as 16 x 16: thread (ty, tx) has rows 4ty … 4ty + 3, keys 4tx … and output columns tx + 16c.
template <class T>
__global__ void __launch_bounds__(256) plain_kernel(const Plain p) {
  __shared__ float qs[kDepth][kTile + 4], ks[kDepth][kTile + 4];
  __shared__ float ps[kTile][kTile + 1], vs[kSlab][kColumns];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, b = blockIdx.z;
  const int head = blockIdx.y % p.heads, column = blockIdx.y / p.heads * kColumns, first = blockIdx.x * kTile;
  float o[4][8] = {}, top[4], total[4] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r) top[r] = -INFINITY;
  const int64_t end = p.causal ? min(int64_t{p.lk}, min(first + kTile, p.lq) + p.offset) : int64_t{p.lk};
  for (int key = 0; key < end; key += kTile) {
    float s[4][4] = {};
    for (int depth = 0; depth < p.d; depth += kDepth) {
      __syncthreads();
      for (int i = threadIdx.x; i < kTile * kDepth; i += 256) {
        const int c = i % kDepth, row = i / kDepth;
        const bool inside = depth + c < p.d;
        qs[c][row] =
            inside && first + row < p.lq ? device::as_float(at<T>(p.q, b, first + row, head)[depth + c]) : 0;
        ks[c][row] =
            inside && key + row < p.lk ? device::as_float(at<T>(p.k, b, key + row, head)[depth + c]) : 0;
      }
      __syncthreads();
#pragma unroll 8
      for (int c = 0; c < kDepth; ++c) {
        const float4 q = *reinterpret_cast<const float4*>(&qs[c][4 * ty]);
        const float4 k = *reinterpret_cast<const float4*>(&ks[c][4 * tx]);
        const float qv[4] = {q.x, q.y, q.z, q.w}, kv[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
          for (int n = 0; n < 4; ++n) s[r][n] = fmaf(qv[r], kv[n], s[r][n]);
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = first + 4 * ty + r;
      const int64_t seen = p.causal ? min(int64_t{p.lk}, i + p.offset + 1) : int64_t{p.lk};
      float high = top[r];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int j = key + 4 * tx + n;
        float& v = s[r][n];
        v *= p.scale;
        if (j >= seen) {
          v = -INFINITY;
        } else {
          if (p.key_bias) v += p.key_bias[b * p.key_bias_batch + j];
          if (p.bias && i < p.lq) v += p.bias[head * p.bias_head + i * p.bias_row + j];
        }
        high = fmaxf(high, v);
      }
#pragma unroll
      for (int step = 8; step; step >>= 1) high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
      const float factor = high == -INFINITY ? 1.0f : expf(top[r] - high);
      top[r] = high, total[r] *= factor;
#pragma unroll
      for (int c = 0; c < 8; ++c) o[r][c] *= factor;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float e = high == -INFINITY ? 0.0f : expf(s[r][n] - high);
        total[r] += e;
        ps[4 * ty + r][4 * tx + n] = e;
      }
    }
    for (int slab = 0; slab < kTile; slab += kSlab) {
      __syncthreads();
      for (int i = threadIdx.x; i < kSlab * kColumns; i += 256) {
        const int c = i % kColumns, j = key + slab + i / kColumns;
        vs[i / kColumns][c] =
            column + c < p.d && j < p.lk ? device::as_float(at<T>(p.v, b, j, head)[column + c]) : 0;
      }
      __syncthreads();
#pragma unroll 4
      for (int j = 0; j < kSlab; ++j) {
        float v[8];
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] = vs[j][tx + 16 * c];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float weight = ps[4 * ty + r][slab + j];
#pragma unroll
          for (int c = 0; c < 8; ++c) o[r][c] = fmaf(weight, v[c], o[r][c]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = first + 4 * ty + r;
#pragma unroll
    for (int step = 8; step; step >>= 1) total[r] += __shfl_xor_sync(0xffffffffu, total[r], step);
    if (i >= p.lq) continue;
    const float inverse = total[r] > 0 ? 1.0f / total[r] : 0.0f;
    T* out = const_cast<T*>(at<T>(p.out, b, i, head));
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int to = column + tx + 16 * c;
      if (to < p.d)
        out[to] = from_float<T>(o[r][c] * inverse + (p.accumulate ? device::as_float(out[to]) : 0.0f));
    }
    if (p.lse && column == 0 && tx == 0)
      p.lse[b * p.lse_batch + head * p.lse_head + i] = total[r] > 0 ? top[r] + logf(total[r]) : -INFINITY;
  }
}

View view_of(const Tensor& t) { return {t.data, t.strides[0], t.strides[1], t.strides[2]}; }

}  // namespace

void attention_plain_cuda(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  Plain p{.q = view_of(a.q), .k = view_of(a.k), .v = view_of(a.v), .out = view_of(a.out)};
  p.lq = static_cast<int>(a.q.dims[1]), p.lk = static_cast<int>(a.k.dims[1]);
  p.d = static_cast<int>(a.q.dims[3]), p.heads = static_cast<int>(a.q.dims[2]);
  p.offset = a.causal_offset, p.scale = a.scale, p.causal = a.causal, p.accumulate = a.accumulate;
  if (a.key_bias.defined())
    p.key_bias = static_cast<const float*>(a.key_bias.data), p.key_bias_batch = a.key_bias.strides[0];
  if (a.bias.defined())
    p.bias = static_cast<const float*>(a.bias.data), p.bias_head = a.bias.strides[0],
    p.bias_row = a.bias.strides[1];
  if (a.lse.defined())
    p.lse = static_cast<float*>(a.lse.data), p.lse_batch = a.lse.strides[0], p.lse_head = a.lse.strides[1];
  const cuda::LaunchShape shape{
      dim3(cuda::blocks_for(p.lq, kTile), static_cast<unsigned>(p.heads * ((p.d + kColumns - 1) / kColumns)),
           static_cast<unsigned>(a.q.dims[0])),
      dim3(256)};
  cuda::dispatch_float("attention", a.q.dtype, [&]<class T>() {
    cuda::launch("attention (plain)", plain_kernel<T>, shape, stream, p);
  });
}

}  // namespace tachy::ops
