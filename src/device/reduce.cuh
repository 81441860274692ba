// Sums and maxima over a warp, over the `width` threads (a power of two) that share a row, and over a block.
// Every thread gets the result. The order of additions depends on the shape alone: two runs agree to the bit.
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

// K sums at once over groups of Width <= 32 neighbouring lanes.
template <int Width, int K>
__device__ __forceinline__ void lanes_sum(float (&v)[K]) {
#pragma unroll
  for (int offset = Width / 2; offset; offset >>= 1)
#pragma unroll
    for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(0xffffffffu, v[k], offset);
}

// K sums at once over groups of Width threads: lanes of a warp, or Width / 32 neighbouring warps with
// `scratch` in shared memory, [2][K][warps of the block] floats. `turn` alternates between 0 and 1 from call
// to call, so that one barrier a call is enough.
template <int Width, int K>
__device__ __forceinline__ void group_sum(float (&v)[K], float* scratch, int turn) {
  if constexpr (Width <= 32) {
    lanes_sum<Width>(v);
  } else {
    constexpr int kWarps = Width / 32;
    lanes_sum<32>(v);
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32, first = warp / kWarps * kWarps;
    float* slot = scratch + turn * K * warps;
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int k = 0; k < K; ++k) slot[k * warps + warp] = v[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k) {
      v[k] = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) v[k] += slot[k * warps + first + w];
    }
  }
}

// Over the whole block of at most 1024 threads (a multiple of 32). `scratch`: 33 floats. Ends with a barrier.
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
