// Addresses in shared memory, and the barriers there (mbarrier, from sm_80 on; for older GPUs this is
// compiled but never run). A barrier's phase completes when its number of arrivals and the expected bytes
// (device/tma.cuh) have come; a wait names the parity of the phase for which it waits.
#pragma once

#include <cstdint>

namespace tachy::device {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals));
#endif
}
__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  barrier_init(shared_address(barrier), arrivals);
}
// The barrier is given by its address in shared memory (which saves converting pointers
// in a loop) or by a pointer.
__device__ inline void barrier_arrive(uint32_t barrier) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
#endif
}
__device__ inline void barrier_arrive(uint64_t* barrier) { barrier_arrive(shared_address(barrier)); }
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 1;
  do {
#if __CUDA_ARCH__ >= 900  // sleeps for a while
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
#endif
  } while (!done);
}
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

}  // namespace tachy::device
