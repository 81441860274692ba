// Rounds v for flash8_sm80.cuh on GPUs that halve the rate of products with float32 sums; flash8_codes.cuh has
// the rounding of q and k.
#pragma once

#include "device/mma_sm80.cuh"
#include "ops/attention/flash8_codes.cuh"

namespace tachy::ops::flash {

// The largest |v| of the sample is scaled to 1, so that 16 products of f16 weights up to 2^11 add up in f16.
constexpr float kTopInHalf = 1;

// Grid: (blocks of 128 tokens, B·H) of 256 threads. `to` is [B·H, room, kDim]; channels beyond the head dim are
// zeros.
template <int kDim, class X>
static __global__ void __launch_bounds__(256)
    halve8(const X x, const float* scales, __half* to, Head8* about) {
  constexpr int kChunks = kDim / 8, kStep = 256 / kChunks;
  const int bh = blockIdx.y, channel = threadIdx.x % kChunks * 8, tokens = x.count();
  float inverse[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) inverse[c] = 1 / scales[bh * 128 + channel + c];
  bool beyond = false;
#pragma unroll
  for (int i = 0; i < 128 / kStep; ++i) {
    const int token = blockIdx.x * 128 + i * kStep + threadIdx.x / kChunks;
    if (token >= tokens) break;
    uint4 bits = {};
    if (channel < x.d) bits = *reinterpret_cast<const uint4*>(x.at(bh, token) + channel);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    uint32_t out[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 pair = both(words[j]);
      out[j] = device::pack_pair<__half>(pair.x * inverse[2 * j], pair.y * inverse[2 * j + 1]);
      beyond |= (out[j] & 0x7c00u) == 0x7c00u || (out[j] & 0x7c000000u) == 0x7c000000u;
    }
    *reinterpret_cast<uint4*>(to + (int64_t{bh} * x.room() + token) * kDim + channel) =
        make_uint4(out[0], out[1], out[2], out[3]);
  }
  if (__syncthreads_or(beyond) && threadIdx.x == 0) atomicOr(&about[bh].broken, 1u);
}

}  // namespace tachy::ops::flash
