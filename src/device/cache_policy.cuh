// 16-byte loads with a hint to the second-level cache: data that is not read again is evicted first, data
// that is read again soon is evicted last. On GPUs before sm_80 they are plain loads.
#pragma once

#include "device/mma_sm80.cuh"
#include "device/vec.cuh"

namespace tachy::device {

enum class Keep { first, last };  // whether the data is evicted first or last

template <Keep kKeep>
__device__ __forceinline__ uint64_t cache_policy() {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 800
  if constexpr (kKeep == Keep::first)
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

// load_to_stay has the policy Keep::last; load_once loads data that is evicted first.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_to_stay(const T* p, uint64_t policy) {
#if __CUDA_ARCH__ >= 800
  static_assert(N * sizeof(T) == 16);
  Pack<T, N> out;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(out.words[0]), "=r"(out.words[1]), "=r"(out.words[2]), "=r"(out.words[3])
               : "l"(p), "l"(policy));
  return out;
#else
  return load<T, N>(p);
#endif
}
template <class T, int N>
__device__ __forceinline__ Pack<T, N> load_once(const T* p) {
  static_assert(N * sizeof(T) == 16);
  Pack<T, N> out;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(out.words[0]), "=r"(out.words[1]), "=r"(out.words[2]), "=r"(out.words[3])
               : "l"(p));
  return out;
}

// Like copy_async: if `present` is false, writes zeros and reads nothing.
inline __device__ void copy_async(uint32_t to, const void* from, bool present, uint64_t policy) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0), "l"(policy)
               : "memory");
#else
  copy_async(to, from, present);
#endif
}

}  // namespace tachy::device
