// Every thread of a kernel that is launched by cuda/overlap.h does this before it reads or writes memory: it
// waits until the previous kernel has ended and its results can be read, and lets the next kernel be loaded
// meanwhile. The next one waits in the same way, so nothing is read or overwritten too early.
#pragma once

namespace tachy::device {

__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same for a kernel whose successor reads or writes something before it waits: the successor is loaded
// only when all kernels before this one have ended. Every thread must still wait, or the successor would not
// know that this kernel has ended.
__device__ __forceinline__ void wait_before_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tachy::device
