// The asynchronous tensor-core product of Hopper with a in registers and b in shared memory, K contiguous
// (swizzled): d [64, N] += a [64, 16] · b [N, 16]ᵀ. A thread's four registers of a hold pairs of neighbouring
// columns: columns 2·quad of row r, the same of row r + 8, columns 2·quad + 8 of row r, and those of row r + 8,
// where r = 16·warp + lane/4, as ldmatrix leaves them. device/wgmma.cuh describes d.
#pragma once

#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

template <int N, class T>
__device__ inline void wgmma_rows(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b);

#define TACHY_WGMMA_ROWS(N, REGISTERS, A0, A1, A2, A3, B, TYPE, NAME)                                   \
  template <>                                                                                           \
  __device__ inline void wgmma_rows<N, TYPE>(float(&d)[REGISTERS], const uint32_t(&a)[4], uint64_t b) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME                        \
                 " {" TACHY_WGMMA_S##REGISTERS "}, {" A0 "," A1 "," A2 "," A3 "}, " B ", 1, 1, 1, 0;\n" \
                 : TACHY_WGMMA_F##REGISTERS(d)                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
  }
TACHY_WGMMA_ROWS(88, 44, "%44", "%45", "%46", "%47", "%48", __nv_bfloat16, "bf16")
TACHY_WGMMA_ROWS(96, 48, "%48", "%49", "%50", "%51", "%52", __nv_bfloat16, "bf16")
#undef TACHY_WGMMA_ROWS

}  // namespace tachy::device
