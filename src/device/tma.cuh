// Hopper's bulk copies: operations on barriers in shared memory, loads of a tensor map's boxes into shared
// memory, and the transfer of registers between warps.
#pragma once

#include <cuda.h>

#include "device/shared_memory.cuh"

namespace tachy::device {

// Call it after the initialisation, before anything else (another block, the copy engine) uses the barriers.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void barrier_expect(uint32_t barrier, uint32_t bytes) {  // also arrives
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  barrier_expect(shared_address(barrier), bytes);
}

// --- copies of the box at given coordinates (innermost first) to shared memory; the barrier counts the
// bytes. Whatever lies outside the tensor arrives as zeros.

__device__ inline void tma_prefetch(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}
__device__ inline void tma_load(void* to, const CUtensorMap* map, uint64_t* barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];\n" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ inline void tma_load(uint32_t to, const CUtensorMap* map, uint32_t barrier, int c0, int c1, int c2,
                                int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ inline void tma_load(void* to, const CUtensorMap* map, uint64_t* barrier, int c0, int c1, int c2,
                                int c3) {
  tma_load(shared_address(to), map, shared_address(barrier), c0, c1, c2, c3);
}

// --- registers of a warpgroup, from the pool with which the block was launched

template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

}  // namespace tachy::device
