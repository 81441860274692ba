// Attention for every case on any GPU, with float32 arithmetic and any head dim, strides, biases, ranges,
// lists of key blocks and alignment. A block takes 64 queries of one head and 128 of its output columns; keys
// pass through shared memory 64 at a time, the head dim 32 at a time. Wider heads recompute the scores for
// each 128 columns. It is not meant to be fast.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/cut_lists.cuh"

namespace tachy::ops {
namespace {

using device::from_float;

constexpr int kTile = 64, kDepth = 32, kColumns = 128, kSlab = 16;

struct Plain {
  const void* q = nullptr;
  void* out = nullptr;
  flash::Strides qs, os;
  flash::KeyList keys;
  flash::CutLists lists;
  const float* bias = nullptr;
  float* lse = nullptr;
  int64_t bias_head = 0, bias_row = 0, lse_batch = 0, lse_head = 0;
  int lq = 0, d = 0, heads = 0;
  float scale = 1;
  bool accumulate = false;
};

template <class T>
__device__ const T* at(const void* data, const flash::Strides& s, int64_t b, int64_t row, int64_t head) {
  return static_cast<const T*>(data) + b * s.batch + row * s.row + head * s.head;
}

// A block has 256 threads as 16 x 16: thread (ty, tx) has rows 4ty … 4ty + 3, keys 4tx … and output columns
// tx + 16c.
template <class T>
__global__ void __launch_bounds__(256) plain_kernel(const Plain p) {
  __shared__ float qs[kDepth][kTile + 4], ks[kDepth][kTile + 4];
  __shared__ float ps[kTile][kTile + 1], vs[kSlab][kColumns];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, b = blockIdx.z;
  const int head = blockIdx.y % p.heads, column = blockIdx.y / p.heads * kColumns;
  // A block of queries with a list of its own takes kTilesEach tiles, the last of which may have no query.
  constexpr int kListed = BlockLists::kTokens, kTilesEach = kListed / kTile;
  const int query_block = blockIdx.x / kTilesEach;
  const flash::Span queries = flash::span_of(p.lists.query_ends, query_block, p.lq, kListed);
  const int first = queries.first + static_cast<int>(blockIdx.x) % kTilesEach * kTile, lq = queries.end;
  if (first >= lq) return;
  float o[4][8] = {}, top[4], total[4] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r) top[r] = -INFINITY;
  for (int range = 0; range < p.keys.count; ++range) {
    const flash::Keys& r = p.keys.ranges[range];
    const int lk = r.present();
    const auto seen_by = [&](int i) {
      return r.causal ? min(lk, flash::causal_keys(i, r.offset, r.block)) : lk;
    };
    const auto seen_from = [&](int i) { return flash::window_start(i, r.offset, r.window); };
    const int32_t* list = p.lists.indices ? p.lists.list(b, head, query_block) : nullptr;
    const int most = seen_by(min(first + kTile, lq) - 1);
    const int tiles = list ? p.lists.count(b, head, query_block) * kTilesEach : (most + kTile - 1) / kTile;
    for (int tile = list ? 0 : seen_from(first) / kTile; tile < tiles; ++tile) {
      // A block of a list is kTilesEach tiles of keys, too.
      const flash::Span keys =
          list ? flash::span_of(p.lists.key_ends, p.lists.block(list, tile / kTilesEach), lk, kListed)
               : flash::Span{0, lk};
      const int key = list ? keys.first + tile % kTilesEach * kTile : tile * kTile, end = keys.end;
      if (key >= min(end, most)) continue;
      float s[4][4] = {};
      for (int depth = 0; depth < p.d; depth += kDepth) {
        __syncthreads();
        for (int i = threadIdx.x; i < kTile * kDepth; i += 256) {
          const int c = i % kDepth, row = i / kDepth;
          const bool inside = depth + c < p.d;
          qs[c][row] = inside && first + row < lq
                           ? device::as_float(at<T>(p.q, p.qs, b, first + row, head)[depth + c])
                           : 0;
          ks[c][row] = inside && key + row < end
                           ? device::as_float(at<T>(r.k, r.ks, b, key + row, head)[depth + c])
                           : 0;
        }
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < kDepth; ++c) {
          const float4 q = *reinterpret_cast<const float4*>(&qs[c][4 * ty]);
          const float4 k = *reinterpret_cast<const float4*>(&ks[c][4 * tx]);
          const float qv[4] = {q.x, q.y, q.z, q.w}, kv[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
          for (int m = 0; m < 4; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n) s[m][n] = fmaf(qv[m], kv[n], s[m][n]);
        }
      }
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const int i = first + 4 * ty + m, seen = min(end, seen_by(i)), from = seen_from(i);
        float high = top[m];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int j = key + 4 * tx + n;
          float& v = s[m][n];
          v *= p.scale;
          if (j >= seen || j < from) {
            v = -INFINITY;
          } else {
            if (r.key_bias) v += r.key_bias[b * r.key_bias_batch + j];
            if (p.bias && i < lq) v += p.bias[head * p.bias_head + i * p.bias_row + j];
          }
          high = fmaxf(high, v);
        }
#pragma unroll
        for (int step = 8; step; step >>= 1) high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
        const float factor = high == -INFINITY ? 1.0f : expf(top[m] - high);
        top[m] = high, total[m] *= factor;
#pragma unroll
        for (int c = 0; c < 8; ++c) o[m][c] *= factor;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float e = high == -INFINITY ? 0.0f : expf(s[m][n] - high);
          total[m] += e;
          ps[4 * ty + m][4 * tx + n] = e;
        }
      }
      for (int slab = 0; slab < kTile; slab += kSlab) {
        __syncthreads();
        for (int i = threadIdx.x; i < kSlab * kColumns; i += 256) {
          const int c = i % kColumns, j = key + slab + i / kColumns;
          vs[i / kColumns][c] =
              column + c < p.d && j < end ? device::as_float(at<T>(r.v, r.vs, b, j, head)[column + c]) : 0;
        }
        __syncthreads();
#pragma unroll 4
        for (int j = 0; j < kSlab; ++j) {
          float v[8];
#pragma unroll
          for (int c = 0; c < 8; ++c) v[c] = vs[j][tx + 16 * c];
#pragma unroll
          for (int m = 0; m < 4; ++m) {
            const float weight = ps[4 * ty + m][slab + j];
#pragma unroll
            for (int c = 0; c < 8; ++c) o[m][c] = fmaf(weight, v[c], o[m][c]);
          }
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = first + 4 * ty + r;
#pragma unroll
    for (int step = 8; step; step >>= 1) total[r] += __shfl_xor_sync(0xffffffffu, total[r], step);
    if (i >= lq) continue;
    const float inverse = total[r] > 0 ? 1.0f / total[r] : 0.0f;
    T* out = const_cast<T*>(at<T>(p.out, p.os, b, i, head));
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

}  // namespace

void attention_plain_cuda(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  Plain p{.q = a.q.data,
          .out = a.out.data,
          .qs = flash::strides_of(a.q),
          .os = flash::strides_of(a.out),
          .keys = flash::key_list(a),
          .lists = flash::cut_lists_of(a)};
  p.lq = static_cast<int>(a.q.dims[1]);
  p.d = static_cast<int>(a.q.dims[3]), p.heads = static_cast<int>(a.q.dims[2]);
  p.scale = a.scale, p.accumulate = a.accumulate;
  if (a.bias.defined())
    p.bias = static_cast<const float*>(a.bias.data), p.bias_head = a.bias.strides[0],
    p.bias_row = a.bias.strides[1];
  if (a.lse.defined())
    p.lse = static_cast<float*>(a.lse.data), p.lse_batch = a.lse.strides[0], p.lse_head = a.lse.strides[1];
  const bool cut = a.blocks.queries.defined();
  const cuda::LaunchShape shape{
      dim3(cut ? static_cast<unsigned>(2 * a.blocks.queries.ends.dims[0]) : cuda::blocks_for(p.lq, kTile),
           static_cast<unsigned>(p.heads * ((p.d + kColumns - 1) / kColumns)),
           static_cast<unsigned>(a.q.dims[0])),
      dim3(256)};
  cuda::dispatch_float("attention", a.q.dtype, [&]<class T>() {
    cuda::launch("attention (plain)", plain_kernel<T>, shape, stream, p);
  });
}

}  // namespace tachy::ops
