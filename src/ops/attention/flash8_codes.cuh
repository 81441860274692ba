// The rounding of q and k for attention in 8 bits, on every GPU since sm_80. Two kernels, each of which reads
// its tensors once:
//   sample8     for each head's channels: the mean of k and the largest |v| of about 1,024 tokens spread over
//               all. A softmax does not change if all keys move by one vector, so the mean of some is as good
//               as that of all.
//   turn8       subtracts k's mean, changes signs in q and k, and transforms the 128 or 64 channels by Hadamard's
//               matrix, which spreads a channel that stands out over all; then it rounds to int8 with a scale
//               per token (q) or per 128 tokens (k)
// Channels beyond the head dim are zeros.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "ops/attention/flash8_head.cuh"

namespace tachy::ops::flash {

// One of q, k and v: [B, L, H, D] in bf16.
struct Tokens8 {
  const __nv_bfloat16* data;
  int64_t batch, row, head;  // strides
  int tokens, heads, d;
  __device__ const __nv_bfloat16* at(int bh, int64_t token) const {
    return data + bh / heads * batch + bh % heads * head + token * row;
  }
  __device__ int count() const { return tokens; }
  __device__ int room() const { return tokens; }  // tokens of a head in scratch
};

constexpr int kSampled8 = 1024;

// Grid: B·H blocks of 1,024 threads; a lane has four channels. v_scales may be null; the largest |v| of
// the sample is v_top times its scale.
template <class X>
static __global__ void __launch_bounds__(1024)
    sample8(const X k, const X v, float v_top, __nv_bfloat16* k_means, float* v_scales, Head8* about) {
  __shared__ float sums[32][128], tops[32][128];
  const int bh = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, channel = lane * 4;
  const int tokens = k.count(), apart = max(1, tokens / kSampled8), samples = (tokens + apart - 1) / apart;
  float sum[4] = {}, top[4] = {};
  if (channel < k.d) {
#pragma unroll 8
    for (int i = warp; i < samples; i += 32) {
      const int64_t token = int64_t{i} * apart;
      const auto four = [&](const X& t, auto&& take) {
        const uint2 bits = *reinterpret_cast<const uint2*>(t.at(bh, token) + channel);
        take(0, __uint_as_float(bits.x << 16)), take(1, __uint_as_float(bits.x & 0xffff0000u));
        take(2, __uint_as_float(bits.y << 16)), take(3, __uint_as_float(bits.y & 0xffff0000u));
      };
      four(k, [&](int c, float x) { sum[c] += x; });
      if (v_scales) four(v, [&](int c, float x) { top[c] = fmaxf(top[c], fabsf(x)); });
    }
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) sums[warp][channel + c] = sum[c], tops[warp][channel + c] = top[c];
  __syncthreads();
  if (threadIdx.x < 128) {
    float all = 0, most = 0;
    for (int i = 0; i < 32; ++i) all += sums[i][threadIdx.x], most = fmaxf(most, tops[i][threadIdx.x]);
    k_means[bh * 128 + threadIdx.x] = __float2bfloat16(all / static_cast<float>(max(1, samples)));
    if (v_scales) v_scales[bh * 128 + threadIdx.x] = most > 1e-30f ? most / v_top : 1e-30f;
  }
  if (threadIdx.x == 0) about[bh] = {};
}

// kLanes lanes have a token, 32 channels each. This multiplies them by the transform and the root of their number in
// f16, whose 11 bits are more than int8 keeps. A value that does not fit becomes infinite, which is detected afterwards.
template <int kLanes>
__device__ __forceinline__ void turn_channels(__half2 (&v)[16], int part) {
  constexpr uint32_t kSigns[16] = {
      0x00008000u, 0x80000000u, 0x00000000u, 0x80008000u, 0x80008000u, 0x00008000u, 0x80000000u, 0x80008000u,
      0x00000000u, 0x00008000u, 0x80008000u, 0x80000000u, 0x80000000u, 0x00000000u, 0x00008000u, 0x00000000u};
  const uint32_t all = part == 3 ? 0x80008000u : 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    uint32_t& bits = reinterpret_cast<uint32_t&>(v[i]);
    bits ^= kSigns[i] ^ all;
    v[i] = __hfma2(v[i], __halves2half2(1, -1), __lowhigh2highlow(v[i]));
  }
#pragma unroll
  for (int step = 1; step < 16; step *= 2)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (!(i & step)) {
        const __half2 a = v[i], b = v[i + step];
        v[i] = __hadd2(a, b), v[i + step] = __hsub2(a, b);
      }
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    const __half2 sign = __half2half2(part & step ? -1 : 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = __hfma2(sign, v[i], __shfl_xor_sync(~0u, v[i], step));
  }
}

__device__ __forceinline__ float2 both(uint32_t bits) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

// Reads this lane's 32 channels of a token and subtracts `mean`, if it is given. Channels
// beyond the end are zeros.
template <class X>
__device__ __forceinline__ void read_channels(const X& x, int tokens, int bh, int token, int part,
                                              const uint4* mean, __half2 (&v)[16]) {
  const auto* from = reinterpret_cast<const uint4*>(x.at(bh, token) + part * 32);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint4 bits = {};
    if (token < tokens && part * 32 + i * 8 < x.d) bits = from[i];
    const uint4 off = mean ? mean[i] : uint4{};
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w}, offs[4] = {off.x, off.y, off.z, off.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 value = both(words[j]), less = both(offs[j]);
      v[i * 4 + j] =
          mean ? __floats2half2_rn(value.x - less.x, value.y - less.y) : __floats2half2_rn(value.x, value.y);
    }
  }
}

// The bits of the largest |v|, as f16; NaN and infinity have the largest bits of all.
__device__ __forceinline__ uint32_t most_bits(const __half2 (&v)[16]) {
  __half2 most = __habs2(v[0]);
#pragma unroll
  for (int i = 1; i < 16; ++i) most = __hmax2_nan(most, __habs2(v[i]));
  const uint32_t bits = reinterpret_cast<const uint32_t&>(most);
  return max(bits & 0x7fffu, bits >> 16 & 0x7fffu);
}

__device__ __forceinline__ uint32_t most_of_warp(uint32_t most) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, most);
#else
  return most;  // compiled but never run
#endif
}

// Rounds v·inverse to the nearest (even) integer: adding 1.5·2^10 leaves the integer in the lower bits.
__device__ __forceinline__ void put_bytes(const __half2 (&v)[16], __half inverse, int8_t* to) {
  uint4 out[2];
  auto* words = reinterpret_cast<uint32_t*>(out);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const __half2 by = __half2half2(inverse), magic = __half2half2(1536);
    const __half2 a = __hfma2(v[2 * i], by, magic), b = __hfma2(v[2 * i + 1], by, magic);
    words[i] =
        __byte_perm(reinterpret_cast<const uint32_t&>(a), reinterpret_cast<const uint32_t&>(b), 0x6420);
  }
  reinterpret_cast<uint4*>(to)[0] = out[0], reinterpret_cast<uint4*>(to)[1] = out[1];
}

// Grid: (blocks of 128 tokens, B·H) of 4·kDim threads, four or two of them for a token. `to` is [B·H, room, kDim]. `scales` gets `factor` times the step
// of an int8. With kKey 128 tokens share one scale, and the mean is subtracted. `offsets`, if not null, gets
// for each query what its scores lack because the keys' mean is subtracted.
template <bool kKey, int kDim, class X>
__global__ void __launch_bounds__(4 * kDim) turn8(const X x, const __nv_bfloat16* means, float factor,
                                                  int8_t* to, float* scales, float* offsets, Head8* about) {
  constexpr int kLanes = kDim / 32;
  const int bh = blockIdx.y, part = threadIdx.x % kLanes, token = blockIdx.x * 128 + threadIdx.x / kLanes;
  const int tokens = x.count();
  const int64_t row = int64_t{bh} * x.room() + token;
  const auto* mean = reinterpret_cast<const uint4*>(means + bh * 128 + part * 32);
  __half2 v[16];
  read_channels(x, tokens, bh, token, part, kKey ? mean : nullptr, v);
  if (!kKey && offsets) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float2 a = __half22float2(v[i]), m = both(reinterpret_cast<const uint32_t*>(mean)[i]);
      sum += a.x * m.x + a.y * m.y;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (kLanes == 4) sum += __shfl_xor_sync(~0u, sum, 2);
    if (part == 0 && token < tokens) offsets[row] = sum * factor * kDim;
  }
  turn_channels<kLanes>(v, part);
  uint32_t most = most_bits(v);
  most = max(most, __shfl_xor_sync(~0u, most, 1));
  if (kLanes == 4) most = max(most, __shfl_xor_sync(~0u, most, 2));
  if constexpr (kKey) {
    __shared__ uint32_t of_warps[4 * kLanes];
    most = most_of_warp(most);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = most;
    __syncthreads();
    most = most_of_warp(of_warps[threadIdx.x % (4 * kLanes)]);
  }
  constexpr uint32_t kInfinite = 0x7c00;
  const float largest = most < kInfinite ? __half2float(__ushort_as_half(static_cast<uint16_t>(most))) : 1.0f;
  // With smaller values f16 could not hold 127 / largest; their contribution to a score is negligible.
  const __half inverse = __float2half_rn(127 / fmaxf(largest, 0.0022f));
  if (kKey ? threadIdx.x == 0 : part == 0 && token < tokens) {
    const float scale = factor / __half2float(inverse);
    scales[kKey ? int64_t{bh} * gridDim.x + blockIdx.x : row] = scale;
    if (most >= kInfinite) atomicOr(&about[bh].broken, 1u);
    if constexpr (kKey) atomicMax(&about[bh].k_coarsest, __float_as_uint(scale));
  }
  if (token < tokens) put_bytes(v, inverse, to + row * kDim + part * 32);
}

}  // namespace tachy::ops::flash
