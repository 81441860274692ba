// The products of attention in 8 bits on Hopper's tensor cores, K contiguous in shared memory:
//   wgmma_bytes    s [64, 128]  (+)= q [64, 32] · k [128, 32]ᵀ     int8, exact int32 sums
//   wgmma_weights8 o [64, 136]  (+)= p [64, 32] · v [136, 32]ᵀ     e4m3, p in registers; sums that keep about 13 bits
// A thread holds sums of the rows and columns that wgmma.cuh describes. p's registers hold four weights each:
// columns 4·quad to 4·quad + 3 of row r, the same columns of row r + 8, columns 4·quad + 16 … of row r, and
// those of row r + 8. Scores are in other places (columns 2·quad, 2·quad + 1 of each 8), so v's keys are put
// into an order that makes up for it (key_place).
#pragma once

#include <cuda_fp8.h>

#include "device/e4m3.cuh"
#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

inline constexpr int kWeightSums = 68;  // sums for 128 channels, and for 8 columns of ones

#define TACHY_WGMMA_R8(d, i)                                                                      \
  "+r"((d)[(i)]), "+r"((d)[(i) + 1]), "+r"((d)[(i) + 2]), "+r"((d)[(i) + 3]), "+r"((d)[(i) + 4]), \
      "+r"((d)[(i) + 5]), "+r"((d)[(i) + 6]), "+r"((d)[(i) + 7])

__device__ __forceinline__ void wgmma_bytes(uint32_t (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" TACHY_WGMMA_S64 "}, %64, %65, p;\n}\n"
      : TACHY_WGMMA_R8(d, 0), TACHY_WGMMA_R8(d, 8), TACHY_WGMMA_R8(d, 16), TACHY_WGMMA_R8(d, 24),
        TACHY_WGMMA_R8(d, 32), TACHY_WGMMA_R8(d, 40), TACHY_WGMMA_R8(d, 48), TACHY_WGMMA_R8(d, 56)
      : "l"(a), "l"(b), "r"(accumulate));
}
#undef TACHY_WGMMA_R8

__device__ __forceinline__ void wgmma_weights8(float (&d)[kWeightSums], const uint32_t* p, uint64_t v,
                                               int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %73, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n136k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S64
      ",%64,%65,%66,%67}, {%68,%69,%70,%71}, %72, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F64(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
      : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v), "r"(accumulate));
}

}  // namespace tachy::device
