// Rounds v for flash8_sm90.cuh and flash8_e4m3_sm80.cuh; flash8_codes.cuh has the rounding of q and k.
//   transpose8  rounds v to e4m3 with a scale per channel, and transposes it, with its keys at key_place
// Channels beyond the head dim are zeros.
#pragma once

#include "device/e4m3.cuh"
#include "ops/attention/flash8_codes.cuh"

namespace tachy::ops::flash {

// The largest |v| of the sample is scaled to 2^4. Since e4m3 reaches 448, this leaves room for larger values
// outside the sample. A value loses precision only if it is less than 2^-10 times the largest.
constexpr float kTopOfSample = 16;

// Grid: (blocks of 128 tokens, B·H) of 256 threads. `to` is [B·H, 128, padded], where `padded` is a multiple
// of 128. A thread has the four keys of a word (key_place) and 8 channels.
static __global__ void __launch_bounds__(256)
    transpose8(Tokens8 x, const float* scales, int64_t padded, uint8_t* to, Head8* about) {
  constexpr int kStride = 33;
  __shared__ uint32_t tile[128 * kStride];
  __shared__ float inverse[128];
  const int bh = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x < 128) inverse[threadIdx.x] = 1 / scales[bh * 128 + threadIdx.x];
  __syncthreads();
  const __nv_bfloat16* all = x.at(bh, 0);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int word = warp % 4 * 8 + lane / 4, piece = (i * 2 + warp / 4) * 4 + lane % 4;
    const int first = blockIdx.x * 128 + word / 4 * 16 + word % 4 * 2;
    const __nv_bfloat16* from = all + first * x.row + piece * 8;
    uint4 bits[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int token = first + j / 2 * 8 + j % 2;
      if (token < x.tokens && piece * 8 < x.d)
        bits[j] = *reinterpret_cast<const uint4*>(from + (j / 2 * 8 + j % 2) * x.row);
    }
    const auto* words = reinterpret_cast<const uint32_t*>(bits);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      float value[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t pair = words[j * 4 + c / 2];
        value[j] = __uint_as_float(c % 2 ? pair & 0xffff0000u : pair << 16) * inverse[piece * 8 + c];
      }
      tile[(piece * 8 + c) * kStride + word] = device::pack_e4m3(value[0], value[1], value[2], value[3]);
    }
  }
  __syncthreads();
  uint32_t beyond = 0;  // bytes of 448 and NaN, 0x7e and 0x7f, set its highest bits
  uint8_t* rows = to + int64_t{bh} * 128 * padded + blockIdx.x * 128 + lane * 4;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int channel = i * 8 + warp;
    const uint32_t bytes = tile[channel * kStride + lane];
    beyond |= (bytes & 0x7f7f7f7fu) + 0x02020202u;
    *reinterpret_cast<uint32_t*>(rows + channel * padded) = bytes;
  }
  if (__syncthreads_or(beyond & 0x80808080u) && threadIdx.x == 0) atomicOr(&about[bh].broken, 1u);
}

}  // namespace tachy::ops::flash
