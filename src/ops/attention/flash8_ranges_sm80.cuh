// Several ranges of keys, or one whose length lies on the device, for flash8_sm80.cuh. The kernels that round read the
// ranges' tokens one after the other, as far as they exist, and write them without gaps: scratch has room for all keys,
// and the first count() of them are there. So the kernel that multiplies has one range, whose length it computes when
// it begins; its loop is that of whole ranges. v, which otherwise stays where it is, is copied.
#pragma once

#include "ops/attention/flash8_launch.cuh"
#include "ops/attention/flash8_rows_sm80.cuh"

namespace tachy::ops::flash {

// How many keys of each range exist.
struct JoinedKeys {
  static constexpr int kMost = 1 + KeyRanges::kMost;
  const int32_t* lengths[kMost] = {};  // null where all exist
  int tokens[kMost] = {};
  __device__ __forceinline__ int count_of(int i) const {
    return lengths[i] ? max(0, min(tokens[i], static_cast<int>(*lengths[i]))) : tokens[i];
  }
  __device__ __forceinline__ int count() const {
    int all = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) all += count_of(i);
    return all;
  }
};

// The ranges' k or v, in place of Tokens8.
struct JoinedTokens {
  JoinedKeys keys;
  Tokens8 ranges[JoinedKeys::kMost];
  int all, d;
  __device__ __forceinline__ const __nv_bfloat16* at(int bh, int64_t token) const {
    const __nv_bfloat16* found = ranges[0].data;
#pragma unroll
    for (int i = 0; i < JoinedKeys::kMost; ++i) {
      const int here = keys.count_of(i);
      if (token >= 0 && token < here) found = ranges[i].at(bh, token);
      token -= here;
    }
    return found;
  }
  __device__ __forceinline__ int count() const { return keys.count(); }
  __device__ __forceinline__ int room() const { return all; }
};

inline JoinedTokens joined8(const AttentionArgs& a, Tensor KeyRange::*which) {
  JoinedTokens x{.all = static_cast<int>(all_keys(a)), .d = static_cast<int>(a.q.dims[3])};
  for (int i = 0; i < a.ranges(); ++i) {
    const KeyRange r = a.range(i);
    x.ranges[i] = tokens8(r.*which), x.keys.tokens[i] = x.ranges[i].tokens;
    if (r.length.defined()) x.keys.lengths[i] = static_cast<const int32_t*>(r.length.data);
  }
  return x;
}

// Copies v in bf16. Grid: (blocks of 128 tokens, B·H) of 256 threads. `to` is [B·H, room, kDim]; channels beyond the
// head dim are zeros.
template <int kDim>
static __global__ void __launch_bounds__(256) join8(const JoinedTokens x, __nv_bfloat16* to) {
  constexpr int kChunks = kDim / 8, kStep = 256 / kChunks;
  const int bh = blockIdx.y, channel = threadIdx.x % kChunks * 8, tokens = x.count();
#pragma unroll
  for (int i = 0; i < 128 / kStep; ++i) {
    const int token = blockIdx.x * 128 + i * kStep + threadIdx.x / kChunks;
    if (token >= tokens) break;
    uint4 bits = {};
    if (channel < x.d) bits = *reinterpret_cast<const uint4*>(x.at(bh, token) + channel);
    *reinterpret_cast<uint4*>(to + (int64_t{bh} * x.room() + token) * kDim + channel) = bits;
  }
}

// grid [query tiles, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    byte_ranges_kernel(const ByteParams p, const JoinedKeys keys) {
  attend_bytes<C, true>(p, keys.count());
}

}  // namespace tachy::ops::flash
