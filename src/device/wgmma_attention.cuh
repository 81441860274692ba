// Attention's second product on Hopper's tensor cores (wgmma.cuh has the first):
//   wgmma_weights  o [64, N]  += p [64, 16] · v [16, N]       p in registers, v with N contiguous
// p's four registers hold pairs of neighbouring columns: columns 2·quad of row r, the same columns of row
// r + 8, columns 2·quad + 8 of row r, and those of row r + 8, where r = 16·warp + lane/4. wgmma leaves its
// sums in the same places, so 16 columns of scores become the operand without a shuffle.
#pragma once

#include "device/wgmma.cuh"
#include "device/wgmma_lists.h"

namespace tachy::device {

template <int N, class T>
__device__ inline void wgmma_weights(float (&d)[N / 2], const uint32_t* p, uint64_t v);

TACHY_WGMMA_A_IN_REGISTERS(wgmma_weights, 64, 32, "%32", "%33", "%34", "%35", "%36", __nv_bfloat16, "bf16",
                           "1")
TACHY_WGMMA_A_IN_REGISTERS(wgmma_weights, 64, 32, "%32", "%33", "%34", "%35", "%36", __half, "f16", "1")
TACHY_WGMMA_A_IN_REGISTERS(wgmma_weights, 128, 64, "%64", "%65", "%66", "%67", "%68", __nv_bfloat16, "bf16",
                           "1")
TACHY_WGMMA_A_IN_REGISTERS(wgmma_weights, 128, 64, "%64", "%65", "%66", "%67", "%68", __half, "f16", "1")

// Descriptors of operands that lie as boxes of 64 columns (128 bytes per row, swizzled) with `rows` rows
// each, one after the other. A descriptor's upper half is constant; its lower half names the address and
// moves with it, in units of 16 bytes.
//   k_major          K runs along the row: 8 rows are 1024 bytes
//   transposed<rows> N runs along the row, K down: 8 rows are 1024 bytes, the next 64 columns one box on
struct MatrixBase {
  uint32_t low;
  static constexpr uint32_t kHigh = 1024 >> 4 | 1u << 30;
  __device__ uint64_t at(uint32_t bytes) const { return uint64_t{kHigh} << 32 | (low + (bytes >> 4)); }
};
// In a cluster the upper bits of an address name the block, and must not get into a descriptor.
__device__ inline MatrixBase k_major(uint32_t shared_address) {
  return {(shared_address & 0x3ffff) >> 4 | 1u << 16};
}
template <int kRows>
__device__ inline MatrixBase transposed(uint32_t shared_address) {
  return {(shared_address & 0x3ffff) >> 4 | uint32_t{kRows * 128 >> 4} << 16};
}
// The value is the same in all lanes. This lets the compiler know it, so that the products' descriptors need
// no vector registers.
__device__ inline MatrixBase uniform(MatrixBase base) { return {__shfl_sync(~0u, base.low, 0)}; }

// The compiler treats a wgmma as complete when it is issued. After the wait for it, this makes the compiler
// read the registers again, and keeps operands in their registers until then.
template <int N>
__device__ __forceinline__ void wgmma_touch(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N>
__device__ __forceinline__ void wgmma_touch(uint32_t (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

}  // namespace tachy::device
