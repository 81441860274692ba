// The asynchronous tensor-core product of Hopper with a in registers and b in shared memory, K contiguous
// (swizzled): d [64, N] += a [64, 16] · b [N, 16]ᵀ. A thread's four registers of a hold pairs of neighbouring
// columns: columns 2·quad of row r, the same of row r + 8, columns 2·quad + 8 of row r, and those of row r + 8,
// where r = 16·warp + lane/4, as ldmatrix leaves them. device/wgmma.cuh describes d.
#pragma once

#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

template <int N, class T>
__device__ inline void wgmma_rows(float (&d)[N / 2], const uint32_t* a, uint64_t b);

TACHY_WGMMA_A_IN_REGISTERS(wgmma_rows, 80, 40, "%40", "%41", "%42", "%43", "%44", __nv_bfloat16, "bf16", "0")
TACHY_WGMMA_A_IN_REGISTERS(wgmma_rows, 88, 44, "%44", "%45", "%46", "%47", "%48", __nv_bfloat16, "bf16", "0")
TACHY_WGMMA_A_IN_REGISTERS(wgmma_rows, 96, 48, "%48", "%49", "%50", "%51", "%52", __nv_bfloat16, "bf16", "0")

}  // namespace tachy::device
