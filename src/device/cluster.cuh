// Blocks of a cluster (Hopper): their ranks, their barrier, arrivals at a barrier of another block, and
// copies that reach the same place in all of them.
#pragma once

#include "device/tma.cuh"

namespace tachy::device {

__device__ inline uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}
// Waits for all threads of all blocks of the cluster.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}
// Arrives at the barrier at the same address as `barrier` in the block of that rank. (`.release.cluster`
// would first wait for all of this thread's memory accesses, which is a fence of the whole GPU; data that was
// only read needs none.)
__device__ inline void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// Like tma_load, but copies to the same place in every block of `mask`; each block's barrier at the same
// place counts the bytes.
__device__ inline void tma_load_all(uint32_t to, const CUtensorMap* map, uint32_t barrier, int c0, int c1,
                                    int c2, int c3, uint16_t mask, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7, %8;\n" ::"r"(to),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(mask),
      "l"(policy)
      : "memory");
}

}  // namespace tachy::device
