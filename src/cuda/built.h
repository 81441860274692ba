// Whether this build has code for GPUs, and whether that code is here now.
//
// TACHY_CUDA=ON links the kernels into each program. TACHY_CUDA=APART leaves them to a shared library, which is
// opened when a GPU is asked for (apart/kernel_loader.h). A build without CUDA has none, and the functions that
// launch kernels are not defined.
#pragma once

#include <tachy_cuda_build.h>  // written by cmake/library.cmake

#ifdef TACHY_CUDA_APART
#include <atomic>
#endif

namespace tachy::cuda {

#ifdef TACHY_CUDA_BUILT
inline constexpr bool kBuilt = true;  // functions that launch kernels may be named
#else
inline constexpr bool kBuilt = false;
#endif

// Says whether functions that launch kernels may be called.
#ifdef TACHY_CUDA_APART
extern std::atomic<bool> kernels_opened;  // apart/gpu_apart.cpp; it never becomes false again
inline bool kernels_here() { return kernels_opened.load(std::memory_order_relaxed); }
#else
constexpr bool kernels_here() { return kBuilt; }
#endif

}  // namespace tachy::cuda
