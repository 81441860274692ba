// Whether this build has code for GPUs. Without it the functions that launch kernels are not defined.
#pragma once

namespace tachy::cuda {

#ifdef TACHY_CUDA_BUILT
inline constexpr bool kBuilt = true;
#else
inline constexpr bool kBuilt = false;
#endif

}  // namespace tachy::cuda
