// The asynchronous tensor-core product of Hopper in e4m3, with both operands in shared memory:
//   d [64, N] (+)= a [64, 32] · b [N, 32]ᵀ, K contiguous (swizzled); sums that keep about 13 bits
// A thread holds the sums that device/wgmma.cuh describes.
#pragma once

#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

// d += a·b, or d = a·b if accumulate is 0.
template <int N>
__device__ inline void wgmma_codes(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate);

template <>
__device__ inline void wgmma_codes<64>(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S32 "}, %32, %33, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F32(d)
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_codes<96>(float (&d)[48], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S48 "}, %48, %49, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F48(d)
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_codes<128>(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S64 "}, %64, %65, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F64(d)
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_codes<160>(float (&d)[80], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S80 "}, %80, %81, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F80(d)
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma_codes<192>(float (&d)[96], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S96 "}, %96, %97, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F96(d)
      : "l"(a), "l"(b), "r"(accumulate));
}

}  // namespace tachy::device
