// 16-byte loads and stores. A Pack is N neighbouring values in the format of memory, so that a row takes no
// more space in registers than in memory; `get` widens one value when it is needed.
//   kPack<T, U>   values handled by a thread at once when it reads T and writes U: 16 bytes of the wider type
// Activations are read once, so they bypass the first-level cache, which is left to data that rows share
// (modulation, norm weights). Loads are plain (not .nc), because an op may run in place.
#pragma once

#include "device/numeric.cuh"

namespace tachy::device {

template <class T, class U = T>
inline constexpr int kPack = 16 / (sizeof(T) > sizeof(U) ? sizeof(T) : sizeof(U));

template <class T, int N>
struct Pack {
  static constexpr int kBytes = N * sizeof(T), kWords = kBytes >= 4 ? kBytes / 4 : 1;
  uint32_t words[kWords];

  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else if constexpr (N == 1) {
      return widen(words[0] & 0xffffu);
    } else {
      return widen(i % 2 ? words[i / 2] >> 16 : words[i / 2] & 0xffffu);
    }
  }
  // Like get, but with other instructions: the compiler does not see that it already has the value, and so
  // does not keep all widened values of a pack in registers until then.
  __device__ __forceinline__ float get_again(int i) const {
    if constexpr (sizeof(T) == 4 || N == 1) {
      return get(i);
    } else if constexpr (std::is_same_v<T, bf16>) {
      return __uint_as_float(bytes_of(words[i / 2], i % 2 ? 0x3244 : 0x1044));
    } else {
      const uint32_t swapped = bytes_of(words[i / 2], 0x1032);
      return widen(i % 2 ? swapped & 0xffffu : swapped >> 16);
    }
  }
  // Sets two values at a time, because one instruction converts a pair.
  __device__ __forceinline__ void set(int i, float a, float b) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(a), words[i + 1] = __float_as_uint(b);
    } else if constexpr (std::is_same_v<T, bf16>) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
      words[i / 2] = *reinterpret_cast<const uint32_t*>(&pair);
    } else {
      const __half2 pair = __floats2half2_rn(a, b);
      words[i / 2] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
  __device__ __forceinline__ void set(const float (&v)[N]) {
    if constexpr (N == 1) {
      const T narrow = from_float<T>(v[0]);
      if constexpr (sizeof(T) == 4)
        words[0] = __float_as_uint(v[0]);
      else
        words[0] = *reinterpret_cast<const uint16_t*>(&narrow);
    } else {
#pragma unroll
      for (int i = 0; i < N; i += 2) set(i, v[i], v[i + 1]);
    }
  }

 private:
  __device__ __forceinline__ static float widen(uint32_t bits) {
    if constexpr (std::is_same_v<T, bf16>) {
      return __uint_as_float(bits << 16);
    } else {
      const uint16_t half = static_cast<uint16_t>(bits);
      return __half2float(*reinterpret_cast<const __half*>(&half));
    }
  }
  // Picks bytes of `word` (0 to 3) and zeros (4); the lowest byte is named last.
  __device__ __forceinline__ static uint32_t bytes_of(uint32_t word, uint32_t which) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(bytes) : "r"(word), "r"(which));
    return bytes;
  }
};

template <class T, int N>
__device__ __forceinline__ Pack<T, N> load(const T* p) {
  Pack<T, N> out;
  if constexpr (out.kBytes == 2) {
    uint16_t v;
    asm volatile("ld.global.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
    out.words[0] = v;
  } else if constexpr (out.kBytes == 4) {
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(out.words[0]) : "l"(p));
  } else if constexpr (out.kBytes == 8) {
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(out.words[0]), "=r"(out.words[1])
                 : "l"(p));
  } else {
    static_assert(out.kBytes == 16);
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out.words[0]), "=r"(out.words[1]), "=r"(out.words[2]), "=r"(out.words[3])
                 : "l"(p));
  }
  return out;
}

template <class T, int N>
__device__ __forceinline__ void store(T* p, const Pack<T, N>& v) {
  if constexpr (v.kBytes == 2)
    *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(v.words[0]);
  else if constexpr (v.kBytes == 4)
    *reinterpret_cast<uint32_t*>(p) = v.words[0];
  else if constexpr (v.kBytes == 8)
    *reinterpret_cast<uint2*>(p) = make_uint2(v.words[0], v.words[1]);
  else
    *reinterpret_cast<uint4*>(p) = make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]);
}

template <class T, int N>
__device__ __forceinline__ void store(T* p, const float (&v)[N]) {
  Pack<T, N> pack;
  pack.set(v);
  store(p, pack);
}

// Stores a result that is too large to be found in the cache again (`streaming`) so that it is evicted first,
// which keeps a pass over memory at the rate of a copy (4.2 TB/s on an H200, against 4.0 with plain stores).
template <class T, int N>
__device__ __forceinline__ void store(T* p, const Pack<T, N>& v, bool streaming) {
  if (!streaming)
    store(p, v);
  else if constexpr (v.kBytes == 16)
    __stcs(reinterpret_cast<uint4*>(p), make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]));
  else if constexpr (v.kBytes == 8)
    __stcs(reinterpret_cast<uint2*>(p), make_uint2(v.words[0], v.words[1]));
  else
    store(p, v);
}

template <class T, int N>
__device__ __forceinline__ void store(T* p, const float (&v)[N], bool streaming) {
  Pack<T, N> pack;
  pack.set(v);
  store(p, pack, streaming);
}

// Prefetches into the second-level cache without waiting.
__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Loads N float32 parameters that many rows share, through the first-level cache.
template <int N>
__device__ __forceinline__ void load_shared_row(const float* p, float (&v)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(p + i));
      v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const float2 two = __ldg(reinterpret_cast<const float2*>(p + i));
      v[i] = two.x, v[i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = __ldg(p + i);
  }
}

// The same, but kept in the format of memory until they are used: 16-bit ones take half the registers.
template <class W, int N>
struct SharedRow {
  Pack<W, N> pack;
  __device__ __forceinline__ void load(const W* p) {
    constexpr int kWords = sizeof(pack.words) / 4;
    if constexpr (kWords % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        const uint4 four = __ldg(reinterpret_cast<const uint4*>(p) + i / 4);
        pack.words[i] = four.x, pack.words[i + 1] = four.y, pack.words[i + 2] = four.z;
        pack.words[i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) pack.words[i] = __ldg(reinterpret_cast<const uint32_t*>(p) + i);
    }
  }
  __device__ __forceinline__ float get(int i) const { return pack.get(i); }
};
template <int N>
struct SharedRow<float, N> {
  float values[N];
  __device__ __forceinline__ void load(const float* p) { load_shared_row<N>(p, values); }
  __device__ __forceinline__ float get(int i) const { return values[i]; }
};

}  // namespace tachy::device
