// The asynchronous tensor-core product of Hopper with 16 columns, as device/wgmma.cuh describes it.
#pragma once

#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

template <>
__device__ inline void wgmma<16, __nv_bfloat16>(float (&d)[8], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, 0, "
      "0;\n}\n"
      : TACHY_WGMMA_F8(d, 0)
      : "l"(a), "l"(b), "r"(accumulate));
}

template <>
__device__ inline void wgmma<16, __half>(float (&d)[8], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, 0, "
      "0;\n}\n"
      : TACHY_WGMMA_F8(d, 0)
      : "l"(a), "l"(b), "r"(accumulate));
}

}  // namespace tachy::device
