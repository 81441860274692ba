// Whether this build has code for GPUs. Without it nothing defines the functions that launch kernels.
#pragma once

namespace tachy::cuda {

#ifdef TACHY_CUDA_BUILT
inline constexpr bool kBuilt = true;
#else
inline constexpr bool kBuilt = false;
#endif

}  // namespace tachy::cuda
