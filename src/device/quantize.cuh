// Numbers of 8 bits with a scale: the scale for an amax, and the conversion of values to f8 or i8 and back,
// exactly as in the definition (ops/quantize), with divisions rounded like IEEE's and the hardware's
// conversion to f8 (to nearest even). One IEEE division would cost more than all the rest. So the scale's
// reciprocal is computed once, and each quotient is corrected twice by its remainder (two fused multiply-adds
// each), which rounds correctly.
#pragma once

#include <cuda_fp8.h>

#include "device/vec.cuh"

namespace tachy::device {

enum class To { e4m3, e5m2, i8 };

template <To kTo>
__device__ __forceinline__ float top() {
  return kTo == To::e4m3 ? 448.0f : kTo == To::e5m2 ? 57344.0f : 127.0f;
}

template <To kTo>
__device__ __forceinline__ float scale_of(uint32_t amax_bits) {
  const float amax = __uint_as_float(amax_bits);
  if (amax == 0.0f) return 1.0f;
  const float scale = __fdiv_rn(amax, top<kTo>());
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

struct Divisor {
  float scale, inverse;
  bool quick;  // no step below overflows or underflows
  __device__ __forceinline__ float operator()(float x) const {
    if (!quick) return __fdiv_rn(x, scale);
    const float first = x * inverse, second = fmaf(fmaf(-first, scale, x), inverse, first);
    const float last = fmaf(fmaf(-second, scale, x), inverse, second);
    return fabsf(first) < 0x1p40f ? last : first;  // far outside the range, infinite or NaN
  }
};

// The same if x is at most `top` times a scale for which `quick` holds, without any tests.
__device__ __forceinline__ float bounded_quotient(float x, const Divisor& by) {
  const float first = x * by.inverse, second = fmaf(fmaf(-first, by.scale, x), by.inverse, first);
  return fmaf(fmaf(-second, by.scale, x), by.inverse, second);
}

__device__ __forceinline__ Divisor divisor(float scale) {
  return {scale, __frcp_rn(scale), scale >= 0x1p-60f && scale <= 0x1p60f};
}

// Converts values i and i + 1 of a pack. For f8 the conversion saturates, and NaN becomes 0x7f.
template <To kTo>
__device__ __forceinline__ uint16_t quantized_pair(float a, float b) {
  if constexpr (kTo == To::i8) {
    const auto one = [](float v) {  // NaN becomes 0
      return static_cast<uint32_t>(min(max(__float2int_rn(v), -127), 127)) & 0xffu;
    };
    return static_cast<uint16_t>(one(a) | one(b) << 8);
  } else {
    const auto kind = kTo == To::e4m3 ? __NV_E4M3 : __NV_E5M2;
    uint16_t pair = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, kind);
    if (isnan(a)) pair = (pair & 0xff00u) | 0x7fu;
    if (isnan(b)) pair = (pair & 0x00ffu) | 0x7f00u;
    return pair;
  }
}

// The same for values within ±top.
template <To kTo>
__device__ __forceinline__ uint16_t bounded_pair(float a, float b) {
  if constexpr (kTo == To::i8)
    return static_cast<uint16_t>((__float2int_rn(a) & 0xff) | (__float2int_rn(b) & 0xff) << 8);
  else
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE,
                                    kTo == To::e4m3 ? __NV_E4M3 : __NV_E5M2);
}

template <int N>
__device__ __forceinline__ Pack<uint8_t, N> load_bytes(const uint8_t* p) {
  Pack<uint8_t, N> out;
  if constexpr (N == 8) {
    const uint2 two = *reinterpret_cast<const uint2*>(p);
    out.words[0] = two.x, out.words[1] = two.y;
  } else if constexpr (N == 4) {
    out.words[0] = *reinterpret_cast<const uint32_t*>(p);
  } else {
    out.words[0] = *p;
  }
  return out;
}

// Pairs make words; a pack is N bytes. kBounded means that no value of the pack is beyond ±top scales, and
// that by.quick holds.
template <class X, To kTo, int N, bool kBounded = false>
__device__ __forceinline__ void store_quantized(uint8_t* to, const Pack<X, N>& in, const Divisor& by) {
  const auto pair = [&](int i) -> uint16_t {
    if constexpr (kBounded)
      return bounded_pair<kTo>(bounded_quotient(in.get(i), by), bounded_quotient(in.get(i + 1), by));
    else
      return quantized_pair<kTo>(by(in.get(i)), by(in.get(i + 1)));
  };
  if constexpr (N == 1) {
    *to = static_cast<uint8_t>(quantized_pair<kTo>(by(in.get(0)), 0.0f));
  } else {
    uint32_t words[N / 4];
#pragma unroll
    for (int i = 0; i < N; i += 4) words[i / 4] = pair(i) | static_cast<uint32_t>(pair(i + 2)) << 16;
    if constexpr (N == 8)
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    else
      *reinterpret_cast<uint32_t*>(to) = words[0];
  }
}

template <To kTo>
__device__ __forceinline__ float value_of(uint8_t q) {
  if constexpr (kTo == To::e4m3) return __half2float(__half(__nv_cvt_fp8_to_halfraw(q, __NV_E4M3)));
  if constexpr (kTo == To::e5m2) return __half2float(__half(__nv_cvt_fp8_to_halfraw(q, __NV_E5M2)));
  return static_cast<float>(static_cast<int8_t>(q));
}

// The largest |x| of some packs, as a float's bits. 16-bit values are compared two at a time: without their
// signs they have the order of integers, with NaN above all.
template <class X, int N, int Chunks>
__device__ __forceinline__ uint32_t largest_of(const Pack<X, N> (&packs)[Chunks]) {
  uint32_t best = 0;
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
    if constexpr (sizeof(X) == 2 && N > 1) {
#pragma unroll
      for (int w = 0; w < N / 2; ++w) best = __vmaxu2(best, packs[j].words[w] & 0x7fff7fffu);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) best = max(best, __float_as_uint(packs[j].get(i)) & 0x7fffffffu);
    }
  if constexpr (sizeof(X) == 2 && N > 1) {
    Pack<X, N> one;
    one.words[0] = max(best & 0xffffu, best >> 16);
    best = __float_as_uint(one.get(0));
  }
  return best;
}

template <class X, int N>
__device__ __forceinline__ uint32_t largest(uint32_t so_far, const Pack<X, N>& pack) {
#pragma unroll
  for (int i = 0; i < N; ++i) so_far = max(so_far, __float_as_uint(pack.get(i)) & 0x7fffffffu);
  return so_far;
}

__device__ __forceinline__ uint32_t warp_max_bits(uint32_t v) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

// The maximum over `width` neighbouring threads, a power of two up to the block's size. `scratch` has one
// word per warp of the block.
__device__ __forceinline__ uint32_t group_max_bits(uint32_t v, int width, uint32_t* scratch) {
  for (int offset = min(width, 32) / 2; offset; offset >>= 1)
    v = max(v, __shfl_xor_sync(0xffffffffu, v, offset));
  if (width <= 32) return v;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int each = width / 32, first = static_cast<int>(threadIdx.x) / width * each;
  for (int w = 0; w < each; ++w) v = max(v, scratch[first + w]);
  return v;
}

}  // namespace tachy::device
