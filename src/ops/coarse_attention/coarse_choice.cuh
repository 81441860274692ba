// Finds the blocks of keys with the largest scores, for coarse_attention: a warp for each list looks for the keep-th
// largest score one bit at a time, from the highest on, until just `keep` scores are at least as large.
#pragma once

#include <cstdint>

namespace tachy::ops {

// Numbers in the order of the scores. Both zeros are the same.
__device__ __forceinline__ uint64_t in_order(double score) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(score + 0.0));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

__device__ __forceinline__ int warp_count(int own) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(own)));
#else  // Turing has no such instruction; the kernel is compiled for it and not used there
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) own += __shfl_xor_sync(~0u, own, offset);
  return own;
#endif
}

// Lists the blocks whose score is above `least`, and of those that are equal to it the first ones, in their order.
__device__ inline void list_from(const double* scores, int keys, int keep, uint64_t least, int above,
                                 int32_t* list) {
  const int lane = threadIdx.x % 32;
  int listed = 0, equal = 0;
  for (int first = 0; first < keys; first += 32) {
    const int j = first + lane;
    const uint64_t x = j < keys ? in_order(scores[j]) : 0;
    const unsigned before = (1u << lane) - 1, ties = __ballot_sync(~0u, j < keys && x == least);
    const bool kept = j < keys && (x > least || (x == least && equal + __popc(ties & before) < keep - above));
    const unsigned all = __ballot_sync(~0u, kept);
    if (kept) list[listed + __popc(all & before)] = j;
    listed += __popc(all), equal += __popc(ties);
  }
}

// Lists the `keep` blocks with the largest scores; called by a warp. The scores' high words lie in kWords registers of
// each thread while there is room, and they nearly always decide.
template <int kWords>
__device__ inline void take_best(const double* scores, int keys, int keep, int32_t* list) {
  const int lane = threadIdx.x % 32;
  uint64_t least = 0;  // of the scores that are kept
  int first_bit = 63;
  bool done = false;
  if constexpr (kWords > 0) {
    uint32_t high[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int j = 32 * i + lane;
      high[i] = j < keys ? static_cast<uint32_t>(in_order(scores[j]) >> 32) : 0u;  // no score has the word 0
    }
    uint32_t least_high = 0;
    for (int bit = 31; bit >= 0 && !done; --bit) {
      const uint32_t more = least_high | 1u << bit;
      int own = 0;
#pragma unroll
      for (int i = 0; i < kWords; ++i) own += high[i] >= more;
      const int count = warp_count(own);
      if (count < keep) continue;
      least_high = more, done = count == keep;
    }
    least = uint64_t{least_high} << 32, first_bit = 31;
  }
  const auto count_if = [&](auto&& test) {
    int own = 0;
    for (int j = lane; j < keys; j += 32) own += test(in_order(scores[j]));
    return warp_count(own);
  };
  for (int bit = first_bit; bit >= 0 && !done; --bit) {
    const uint64_t more = least | uint64_t{1} << bit;
    const int count = count_if([&](uint64_t x) { return x >= more; });
    if (count < keep) continue;
    least = more, done = count == keep;
  }
  // Just `keep` scores are at least `least`, or more that are equal to it.
  const int above = count_if([&](uint64_t x) { return x > least; });
  list_from(scores, keys, keep, least, above, list);
}

}  // namespace tachy::ops
