// The scores of blocks, for coarse_attention: products of means in float32, a block of threads for 128 by 128 of them. A sum
// of products differs from the definition's by at most score_error() (coarse_choice.cuh), which the choice looks at again.
#pragma once

#include <cstdint>

namespace tachy::ops {

constexpr int kScoreThreads = 256, kScoreTile = 128;

// Means of the heads that share a launch, and their scores [heads, queries, row].
struct CoarseScores {
  const float *q, *k;  // [heads, D, queries] and [heads, D, keys]
  double* norms;       // [heads, tiles of keys]: the largest squared length of a mean key
  float* scores;
  int queries, keys, d;
  int row;  // scores from one list to the next, a multiple of 4; those from `keys` on are 0
};

__host__ __device__ constexpr int coarse_tiles(int blocks) { return (blocks + kScoreTile - 1) / kScoreTile; }

// Grid: (tiles of keys, heads).
__global__ void __launch_bounds__(kScoreTile) coarse_norms_kernel(const CoarseScores p) {
  __shared__ double largest[kScoreTile / 32];
  const int j = static_cast<int>(blockIdx.x) * kScoreTile + static_cast<int>(threadIdx.x);
  const float* k = p.k + static_cast<int64_t>(blockIdx.y) * p.keys * p.d + j;
  double sum = 0;
  if (j < p.keys) {
#pragma unroll 8
    for (int c = 0; c < p.d; ++c) {
      const auto x = static_cast<double>(k[int64_t{c} * p.keys]);
      sum = fma(x, x, sum);
    }
  }
  const auto larger = [](double a, double b) { return a > b || isnan(a) ? a : b; };  // NaN stays
  for (int offset = 16; offset; offset >>= 1) sum = larger(sum, __shfl_xor_sync(~0u, sum, offset));
  if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < kScoreTile / 32; ++i) sum = larger(sum, largest[i]);
  p.norms[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

// Grid: (tiles of keys, tiles of queries, heads). With `kPacked` rows of means begin at multiples of 16 bytes.
template <bool kPacked>
__global__ void __launch_bounds__(kScoreThreads, 2) coarse_scores_kernel(const CoarseScores p) {
  constexpr int kDeep = 16,
                kPacks = kScoreTile / 4;  // channels of a tile, and groups of four blocks in a row of it
  constexpr int kLoads = kDeep * kPacks / kScoreThreads;
  __shared__ __align__(16) float tile[2][2][kDeep][kScoreTile];  // buffer, queries or keys
  const int first[2] = {static_cast<int>(blockIdx.y) * kScoreTile, static_cast<int>(blockIdx.x) * kScoreTile};
  const int blocks[2] = {p.queries, p.keys};
  const int64_t head = blockIdx.z;
  const float* const from[2] = {p.q + head * p.queries * p.d, p.k + head * p.keys * p.d};
  const int thread = static_cast<int>(threadIdx.x);
  float4 next[2][kLoads];
  const auto fetch = [&](int start) {
#pragma unroll
    for (int side = 0; side < 2; ++side)
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        const int at = thread + n * kScoreThreads, c = start + at / kPacks, i = first[side] + at % kPacks * 4;
        float4 x{};
        if (c < p.d) {
          const float* value = from[side] + int64_t{c} * blocks[side] + i;
          const int left = blocks[side] - i;
          if (kPacked && left >= 4) {
            x = *reinterpret_cast<const float4*>(value);
          } else {
            if (left > 0) x.x = value[0];
            if (left > 1) x.y = value[1];
            if (left > 2) x.z = value[2];
            if (left > 3) x.w = value[3];
          }
        }
        next[side][n] = x;
      }
  };
  const auto keep = [&](int buffer) {
#pragma unroll
    for (int side = 0; side < 2; ++side)
#pragma unroll
      for (int n = 0; n < kLoads; ++n) {
        const int at = thread + n * kScoreThreads;
        *reinterpret_cast<float4*>(&tile[buffer][side][at / kPacks][at % kPacks * 4]) = next[side][n];
      }
  };
  // A thread has rows 4y to 4y + 3 and 64 more of them, and the same of columns.
  const int y = thread / 16 * 4, x = thread % 16 * 4;
  float sum[8][8] = {};
  fetch(0), keep(0);
  __syncthreads();
  for (int start = 0, buffer = 0; start < p.d; start += kDeep, buffer ^= 1) {
    const bool more = start + kDeep < p.d;
    if (more) fetch(start + kDeep);
#pragma unroll
    for (int c = 0; c < kDeep; ++c) {
      float q[8], k[8];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float4*>(q + 4 * half) =
            *reinterpret_cast<const float4*>(&tile[buffer][0][c][y + half * kScoreTile / 2]);
        *reinterpret_cast<float4*>(k + 4 * half) =
            *reinterpret_cast<const float4*>(&tile[buffer][1][c][x + half * kScoreTile / 2]);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(q[i], k[j], sum[i][j]);
    }
    if (more) keep(buffer ^ 1);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int list = first[0] + y + i % 4 + i / 4 * kScoreTile / 2;
    if (list >= p.queries) continue;
    float* to = p.scores + (head * p.queries + list) * p.row + first[1] + x;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (first[1] + x + half * kScoreTile / 2 < p.row)
        *reinterpret_cast<float4*>(to + half * kScoreTile / 2) =
            make_float4(sum[i][4 * half], sum[i][4 * half + 1], sum[i][4 * half + 2], sum[i][4 * half + 3]);
  }
}

}  // namespace tachy::ops
