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

// A, B and ACCUMULATE are the operands that follow the sums.
#define TACHY_WGMMA_CODES(N, SUMS, A, B, ACCUMULATE)                                               \
  template <>                                                                                      \
  __device__ inline void wgmma_codes<N>(float(&d)[SUMS], uint64_t a, uint64_t b, int accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ACCUMULATE                                    \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S##SUMS  \
                 "}, " A ", " B ", p, 1, 1;\n}\n"                                                  \
                 : TACHY_WGMMA_F##SUMS(d)                                                          \
                 : "l"(a), "l"(b), "r"(accumulate));                                               \
  }
TACHY_WGMMA_CODES(64, 32, "%32", "%33", "%34")
TACHY_WGMMA_CODES(96, 48, "%48", "%49", "%50")
TACHY_WGMMA_CODES(128, 64, "%64", "%65", "%66")
TACHY_WGMMA_CODES(160, 80, "%80", "%81", "%82")
TACHY_WGMMA_CODES(192, 96, "%96", "%97", "%98")
#undef TACHY_WGMMA_CODES

}  // namespace tachy::device
