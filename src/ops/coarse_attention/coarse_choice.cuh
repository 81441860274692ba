// Chooses the blocks of keys with the largest scores, for coarse_attention: a warp for each list looks for the keep-th largest
// score in float32 one bit at a time, from the highest on. The definition's scores are sums in float64, from which these
// differ by at most score_error(). Where the keep-th and the next one are further apart than twice that, the choice is the
// definition's. Otherwise the warp computes the few that are as near in float64, and where they are more than a warp has
// threads, the whole block of threads does so for all scores of the list.
//
// Afterwards the list's weights lie where its scores were, for coarse_result.cuh.
#pragma once

#include <cstdint>

#include "device/reduce.cuh"
#include "ops/coarse_attention/coarse_scores.cuh"

namespace tachy::ops {

constexpr int kChoiceThreads = 256, kChoiceLists = kChoiceThreads / 32;

struct CoarseChoice {
  CoarseScores of;
  float* totals;              // [heads, queries], or null where no weights are wanted
  int32_t *indices, *counts;  // [heads, queries, keep] and [heads, queries]
  int keep;
  float scale;
};

// Numbers in the order of the scores. Both zeros are the same, NaN is -inf, and no score is 0.
__device__ __forceinline__ uint32_t in_order(float score) {
  const uint32_t bits = __float_as_uint(isnan(score) ? -INFINITY : score + 0.0f);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}
__device__ __forceinline__ float from_order(uint32_t word) {
  return __uint_as_float(word >> 31 ? word & ~(1u << 31) : ~word);
}
__device__ __forceinline__ uint64_t in_order(double score) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(isnan(score) ? -INFINITY : score + 0.0));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ int warp_count(int own) {
  return static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(own)));
}
__device__ __forceinline__ uint32_t warp_most(uint32_t own) { return __reduce_max_sync(~0u, own); }
#else  // Turing has no such instructions; the kernel is compiled for it and not used there
__device__ __forceinline__ int warp_count(int own) {
  for (int offset = 16; offset; offset >>= 1) own += __shfl_xor_sync(~0u, own, offset);
  return own;
}
__device__ __forceinline__ uint32_t warp_most(uint32_t own) {
  for (int offset = 16; offset; offset >>= 1) own = max(own, __shfl_xor_sync(~0u, own, offset));
  return own;
}
#endif

// The definition's score of one list and block of keys: products of float32 values are exact, and are added in order.
__device__ inline double exact_score(const float* q, const float* k, const CoarseScores& p) {
  double sum = 0;
#pragma unroll 8
  for (int c = 0; c < p.d; ++c)
    sum =
        fma(static_cast<double>(q[int64_t{c} * p.queries]), static_cast<double>(k[int64_t{c} * p.keys]), sum);
  return sum;
}

// Returns by how much a score in float32 may differ from the definition's: |error| <= d · 2^-24 · |q| · |k| to first order, with
// room for the roundings of this bound and of what is compared with it. Infinity: it says nothing. Called by a warp.
__device__ inline float score_error(const CoarseScores& p, const float* q, const double* norms) {
  const int lane = threadIdx.x % 32;
  double square = 0, largest = 0;
  for (int c = lane; c < p.d; c += 32) {
    const auto x = static_cast<double>(q[int64_t{c} * p.queries]);
    square = fma(x, x, square);
  }
  for (int i = lane; i < coarse_tiles(p.keys); i += 32)
    largest = norms[i] > largest || isnan(norms[i]) ? norms[i] : largest;
  for (int offset = 16; offset; offset >>= 1) {
    square += __shfl_xor_sync(~0u, square, offset);
    const double other = __shfl_xor_sync(~0u, largest, offset);
    largest = other > largest || isnan(other) ? other : largest;
  }
  const double product = sqrt(square) * sqrt(largest);
  if (!(product < 1e37)) return INFINITY;  // sums of such products may overflow in float32
  return static_cast<float>(1.02 * 0x1p-24 * (p.d + 16) * product) + 1e-42f;
}

// Lists the blocks of which kept(i) says so, where i counts the warp's groups of 32 blocks.
template <class Kept>
__device__ __forceinline__ void write_list(int groups, Kept&& kept, int32_t* list) {
  const int lane = threadIdx.x % 32;
  int listed = 0;
  for (int i = 0; i < groups; ++i) {
    const bool mine = kept(i);
    const unsigned all = __ballot_sync(~0u, mine);
    if (mine) list[listed + __popc(all & ((1u << lane) - 1))] = 32 * i + lane;
    listed += __popc(all);
  }
}

// Lists the `keep` blocks with the largest of a row of scores in float64, of equal ones the first; called by a warp.
__device__ inline void take_best(const double* scores, int keys, int keep, int32_t* list) {
  const int lane = threadIdx.x % 32;
  const auto count_if = [&](auto&& test) {
    int own = 0;
    for (int j = lane; j < keys; j += 32) own += test(in_order(scores[j]));
    return warp_count(own);
  };
  uint64_t least = 0;  // of the scores that are kept
  bool done = false;
  for (int bit = 63; bit >= 0 && !done; --bit) {
    const uint64_t more = least | uint64_t{1} << bit;
    const int count = count_if([&](uint64_t x) { return x >= more; });
    if (count < keep) continue;
    least = more, done = count == keep;
  }
  // Just `keep` scores are at least `least`, or more that are equal to it.
  const int above = count_if([&](uint64_t x) { return x > least; });
  int equal = 0;
  write_list((keys + 31) / 32,
             [&](int i) {
               const int j = 32 * i + lane;
               const uint64_t x = j < keys ? in_order(scores[j]) : 0;
               const unsigned ties = __ballot_sync(~0u, j < keys && x == least);
               const int before = equal + __popc(ties & ((1u << lane) - 1));
               equal += __popc(ties);
               return j < keys && (x > least || (x == least && before < keep - above));
             },
             list);
}

// The scores of a list in the order of numbers, 32 a group: in registers, or with kGroups 0 where they are. Behind the last one
// are zeros.
template <int kGroups>
struct ScoreWords {
  uint32_t held[kGroups ? kGroups : 1];
  const float* row;
  int keys;

  __device__ __forceinline__ ScoreWords(const float* scores, int count) : row(scores), keys(count) {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) held[i] = read(i);
  }
  __device__ __forceinline__ int groups() const { return kGroups ? kGroups : (keys + 31) / 32; }
  __device__ __forceinline__ uint32_t read(int i) const {
    const int j = 32 * i + static_cast<int>(threadIdx.x % 32);
    return j < keys ? in_order(row[j]) : 0;
  }
  // Calls f(group, word) for each group; all are unrolled where they lie in registers.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    if constexpr (kGroups > 0) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) f(i, held[i]);
    } else {
      for (int i = 0; i < groups(); ++i) f(i, read(i));
    }
  }
  template <class Test>
  __device__ __forceinline__ int count_if(Test&& test) const {
    int own = 0;
    each([&](int, uint32_t x) { own += test(x); });
    return warp_count(own);
  }
  // Lists the blocks of which kept(group, word) says so.
  template <class Kept>
  __device__ __forceinline__ void list(int32_t* to, Kept&& kept) const {
    const unsigned before = (1u << threadIdx.x % 32) - 1;
    int listed = 0;
    each([&](int i, uint32_t x) {
      const bool mine = kept(i, x);
      const unsigned all = __ballot_sync(~0u, mine);
      if (mine) to[listed + __popc(all & before)] = 32 * i + static_cast<int>(threadIdx.x % 32);
      listed += __popc(all);
    });
  }
};

// Lists the blocks of one list; called by a warp. `near` has room for 32 numbers. Returns false, and lists nothing, where too
// many scores are too near to one another.
template <int kGroups>
__device__ inline bool choose(const CoarseChoice& p, const ScoreWords<kGroups>& words, float error,
                              const float* q, const float* k, int* near, int32_t* list) {
  const int lane = threadIdx.x % 32;
  uint32_t least = 0;
  bool done = false;
  for (int bit = 31; bit >= 0 && !done; --bit) {
    const uint32_t more = least | 1u << bit;
    const int count = words.count_if([&](uint32_t x) { return x >= more; });
    if (count < p.keep) continue;
    least = more, done = count == p.keep;
  }
  // The smallest score that is kept, and the largest one that is not.
  uint32_t kept = ~0u, next = 0;
  words.each([&](int, uint32_t x) {
    if (x >= least) kept = min(kept, x);
    if (x < least) next = max(next, x);
  });
  kept = ~warp_most(~kept), next = warp_most(next);
  if (p.keep == p.of.keys || (done && from_order(kept) - from_order(next) > 2 * error)) {
    words.list(list, [&](int, uint32_t x) { return x >= least && x; });
    return true;
  }
  const float middle = from_order(kept);
  if (!(error < 1e37f) || !(fabsf(middle) < 1e37f)) return false;
  const uint32_t above = in_order(middle + 2 * error), below = in_order(middle - 2 * error);
  const int sure = words.count_if([&](uint32_t x) { return x > above; }),
            open = words.count_if([&](uint32_t x) { return x >= below && x <= above; });
  const int needed = p.keep - sure;
  unsigned chosen = ~0u;
  if (open != needed) {
    if (open > 32) return false;
    int found = 0;
    words.each([&](int i, uint32_t x) {
      const bool mine = x >= below && x <= above;
      const unsigned all = __ballot_sync(~0u, mine);
      if (mine) near[found + __popc(all & ((1u << lane) - 1))] = 32 * i + lane;
      found += __popc(all);
    });
    __syncwarp();
    const uint64_t score = lane < open ? in_order(exact_score(q, k + near[lane], p.of)) : 0;
    int larger = 0;  // scores, and equal ones of earlier blocks
    for (int other = 0; other < open; ++other) {
      const uint64_t theirs = __shfl_sync(~0u, score, other);
      larger += theirs > score || (theirs == score && other < lane);
    }
    chosen = __ballot_sync(~0u, lane < open && larger < needed);
  }
  int found = 0;
  words.list(list, [&](int, uint32_t x) {
    const bool mine = x >= below && x <= above;
    const unsigned all = __ballot_sync(~0u, mine);
    const int at = found + __popc(all & ((1u << lane) - 1));
    found += __popc(all);
    return x > above || (mine && (chosen >> min(at, 31) & 1u));
  });
  return true;
}

// Writes weights over the scores of a list, and their sum; called by a warp.
template <int kGroups>
__device__ inline void weigh(const CoarseChoice& p, const ScoreWords<kGroups>& words, float* row,
                             float* total) {
  const int lane = threadIdx.x % 32;
  uint32_t most = 0;
  words.each([&](int, uint32_t x) { most = max(most, x); });
  const float largest = from_order(warp_most(most)) * p.scale;
  float sum = 0;
  words.each([&](int i, uint32_t x) {
    const int j = 32 * i + lane;
    if (j >= p.of.keys) return;
    const float weight = expf(from_order(x) * p.scale - largest);
    row[j] = weight, sum += weight;
  });
  if (const int j = p.of.keys + lane; j < p.of.row) row[j] = 0;
  sum = device::warp_sum(sum);
  if (lane == 0) *total = sum;
}

// Grid: (groups of lists, heads). Shared memory: the scores of a list in float64.
template <int kGroups>
__global__ void __launch_bounds__(kChoiceThreads, 2) coarse_choice_kernel(const CoarseChoice p) {
  extern __shared__ double exact[];
  __shared__ int near[kChoiceLists][32];
  __shared__ bool again[kChoiceLists];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32,
            first = static_cast<int>(blockIdx.x) * kChoiceLists;
  const int64_t head = blockIdx.y;
  const float *q = p.of.q + head * p.of.queries * p.of.d + first, *k = p.of.k + head * p.of.keys * p.of.d;
  const auto list_of = [&](int i) { return p.indices + (head * p.of.queries + first + i) * p.keep; };
  const bool mine = first + warp < p.of.queries;
  if (mine) {
    const int64_t at = head * p.of.queries + first + warp;
    float* row = p.of.scores + at * p.of.row;
    const ScoreWords<kGroups> words(row, p.of.keys);
    const float error = score_error(p.of, q + warp, p.of.norms + head * coarse_tiles(p.of.keys));
    const bool chosen = choose(p, words, error, q + warp, k, near[warp], list_of(warp));
    if (lane == 0) again[warp] = !chosen, p.counts[at] = p.keep;
    if (p.totals) weigh(p, words, row, p.totals + at);
  } else if (lane == 0) {
    again[warp] = false;
  }
  __syncthreads();
  for (int i = 0; i < kChoiceLists; ++i) {
    if (!again[i]) continue;
    for (int j = threadIdx.x; j < p.of.keys; j += kChoiceThreads) exact[j] = exact_score(q + i, k + j, p.of);
    __syncthreads();
    if (warp == 0) take_best(exact, p.of.keys, p.keep, list_of(i));
    __syncthreads();
  }
}

}  // namespace tachy::ops
