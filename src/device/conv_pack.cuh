// Pairs of 16-bit floats, and how they are exchanged within a quad of lanes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tachy::device {

// Before, lane c of a quad holds in v[b] pair c of block b; afterwards it holds in v[k] pair k of block c. It
// is its own inverse.
__device__ inline void transpose_quad(uint32_t (&v)[4]) {
  const int lane = threadIdx.x & 3;
  const bool odd = lane & 1, high = lane & 2;
  const uint32_t r0 = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
  const uint32_t r1 = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  (odd ? v[0] : v[1]) = r0, (odd ? v[2] : v[3]) = r1;
  const uint32_t r2 = __shfl_xor_sync(~0u, high ? v[0] : v[2], 2);
  const uint32_t r3 = __shfl_xor_sync(~0u, high ? v[1] : v[3], 2);
  (high ? v[0] : v[2]) = r2, (high ? v[1] : v[3]) = r3;
}

__device__ inline uint32_t pack2(float a, float b, __nv_bfloat16) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t&>(v);
}
__device__ inline uint32_t pack2(float a, float b, __half) {
  const __half2 v = __floats2half2_rn(a, b);
  return reinterpret_cast<const uint32_t&>(v);
}
__device__ inline float2 unpack2(uint32_t v, __nv_bfloat16) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(v));
}
__device__ inline float2 unpack2(uint32_t v, __half) {
  return __half22float2(reinterpret_cast<const __half2&>(v));
}

}  // namespace tachy::device
