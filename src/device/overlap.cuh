// What every thread of a kernel does that is launched by cuda/overlap.h, before it reads or writes memory: it waits until
// the kernel before has ended and its results can be read, and lets the next one be brought in meanwhile. The next one
// waits in the same way, so nothing is read early or overwritten too soon.
#pragma once

namespace tachy::device {

__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The same for a kernel whose next one reads or writes something before it waits: that one is brought in when all before this
// one has ended, and not while that still runs. It waits nevertheless in each of its threads, or who comes behind it would not
// know that this one has ended.
__device__ __forceinline__ void wait_before_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tachy::device
