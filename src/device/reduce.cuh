// Sums and maxima over a warp, over the `width` threads (a power of two) that share a row, and over a block.
// Every thread gets the result. The order of additions depends on the shape alone, so two runs agree to the
// bit.
#pragma once

#include "device/numeric.cuh"

namespace tachy::device {

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

// Computes K sums at once over groups of `width` neighbouring threads, a power of two: either lanes of a
// warp, or whole warps, which exchange results in `scratch`, 2 · K · (warps of the block) floats of shared
// memory. `turn` alternates between 0 and 1 from call to call, so that one barrier per call is enough.
template <int K>
__device__ __forceinline__ void group_sum(float (&v)[K], int width, float* scratch, int turn) {
  if (width >= 32) {
#pragma unroll
    for (int offset = 16; offset; offset >>= 1)
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(0xffffffffu, v[k], offset);
  } else {
    for (int offset = width / 2; offset; offset >>= 1)
#pragma unroll
      for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(0xffffffffu, v[k], offset);
  }
  if (width <= 32) return;
  const int warps = blockDim.x / 32, warp = threadIdx.x / 32, each = width / 32, first = warp & -each;
  float* slot = scratch + turn * K * warps;
  if (threadIdx.x % 32 == 0)
#pragma unroll
    for (int k = 0; k < K; ++k) slot[k * warps + warp] = v[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    float total = 0;
    for (int w = 0; w < each; ++w) total += slot[k * warps + first + w];
    v[k] = total;
  }
}

// A sum over the whole block of at most 1024 threads (a multiple of 32). `scratch` has 33 floats. The
// function ends with a barrier.
__device__ __forceinline__ float block_sum(float v, float* scratch) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    const float total = warp_sum(threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) scratch[32] = total;
  }
  __syncthreads();
  const float total = scratch[32];
  __syncthreads();
  return total;
}

}  // namespace tachy::device
