// Softmax over a thread's two rows of scores, and their results, for flash_sm90.cuh. A thread's
// columns of a row are s[4j], s[4j + 1] in its first row and s[4j + 2], s[4j + 3] in its second, 8
// columns further for each j.
#pragma once

#include "device/cache_policy.cuh"
#include "device/mma_sm80.cuh"
#include "ops/attention/flash_sm90_masks.cuh"

namespace tachy::ops::flash {

// State of a thread's two rows.
struct Rows90 {
  float most[2];  // the subtracted value, in units of scores
  float sum[2];   // over this thread's columns
};

// The largest score of each of the two rows, by four parallel chains of comparisons.
template <int N>
__device__ __forceinline__ void row_max(const float (&s)[N], float (&most)[2]) {
  float m[4] = {s[0], s[1], s[2], s[3]};
#pragma unroll
  for (int i = 4; i < N; ++i) m[i % 4] = fmaxf(m[i % 4], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    most[r] = fmaxf(m[2 * r], m[2 * r + 1]);
    most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 1));
    most[r] = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 2));
  }
}

// Replaces s by exp2(s·scale − most·scale), or bare scores by exp2(s), and adds to the rows' sums.
template <class C, int N>
__device__ __forceinline__ void exponentials(float (&s)[N], Rows90& rows, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    // This row has seen no key yet.
    const float most = C::kMasks && rows.most[r] == -INFINITY ? 0.0f : rows.most[r];
    const float minus = -most * scale;
    float sum0 = 0, sum1 = 0;
#pragma unroll
    for (int i = 2 * r; i < N; i += 4) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float& x = s[i + k];
        x = device::exp2_approx(C::kBare ? x : C::kBiases ? (x - most) * scale : fmaf(x, scale, minus));
      }
      sum0 += s[i], sum1 += s[i + 1];
    }
    rows.sum[r] += sum0 + sum1;
  }
}

template <class C>
__device__ __forceinline__ void pack_weights(uint32_t (&weights)[C::kKeys / 4],
                                             const float (&s)[C::kKeys / 2]) {
#pragma unroll
  for (int i = 0; i < C::kKeys / 4; ++i) weights[i] = device::pack2(s[2 * i], s[2 * i + 1], typename C::T{});
}

template <class C>
__device__ __forceinline__ void mask_end(float (&s)[C::kKeys / 2], int present) {
  const int column = (threadIdx.x & 3) * 2;
#pragma unroll
  for (int g = 0; g < C::kKeys / 8; ++g)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (g * 8 + column + k % 2 >= present) s[g * 4 + k] = -INFINITY;
}

// Whether a row's sum of weights is in the range that preserves its precision.
template <class C>
__device__ __forceinline__ bool fits(float sum) {
  return sum < C::kRoom && sum > C::kLeast;
}

// Handles a unit without a key: zeros, and lse -inf.
template <class C>
__device__ inline void flash90_nothing(const Params90& p, const Segment90& s, const Place90& place,
                                       uint32_t rank, int group) {
  const int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31;
  if constexpr (!C::kTracks) {
    uint8_t* notes = p.outgrown + int64_t{s.unit} * C::kNotes + (rank * 8 + group * 4 + warp) * 2;
    if (lane == 0) *reinterpret_cast<uint16_t*>(notes) = 0;
  }
  for (int i = 0; i < 16; ++i) {
    const int row = place.row + group * 64 + warp * 16 + i;
    if (row >= p.lq) break;
    auto* to = static_cast<typename C::T*>(p.out) + place.batch * p.out_batch + row * p.out_row +
               place.head * p.out_head;
    if (lane * 8 < p.d) *reinterpret_cast<uint4*>(to + lane * 8) = make_uint4(0, 0, 0, 0);
    if (p.lse && lane == 0) p.lse[place.batch * p.lse_batch + place.head * p.lse_head + row] = -INFINITY;
  }
}

// Writes the sums of a whole unit, divided, to out, or those of a share as they are.
template <class C>
__device__ inline void flash90_finish(const Params90& p, const Segment90& s, const Place90& place,
                                      uint32_t rank, int group, float (&o)[C::kDim / 2], Rows90& rows) {
  using T = typename C::T;
  const int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31, quad = lane & 3;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(~0u, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(~0u, rows.sum[r], 2);
  }
  if constexpr (!C::kTracks) {
    const bool any = __any_sync(~0u, !fits<C>(rows.sum[0]) || !fits<C>(rows.sum[1]));
    uint8_t* notes = p.outgrown + int64_t{s.unit} * C::kNotes + (rank * 8 + group * 4 + warp) * 2;
    if (s.share < 0 && lane == 0) *reinterpret_cast<uint16_t*>(notes) = any;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_block = group * 64 + warp * 16 + r * 8 + lane / 4, row = place.row + in_block;
    // Nothing was subtracted from a row that saw no key of its first step.
    const float subtracted = C::kMasks && rows.most[r] == -INFINITY ? 0.0f : rows.most[r];
    const float most = subtracted * p.scale_log2;
    if (s.share >= 0) {
      const int64_t at = (int64_t{s.share} * C::kCluster + rank) * C::kRows + in_block;
      if (quad == 0) p.share_sums[at] = make_float2(most, rows.sum[r]);
      float* to = p.shares + at * C::kDim + quad * 2;
#pragma unroll
      for (int g = 0; g < C::kDim / 8; ++g)
        *reinterpret_cast<float2*>(to + g * 8) = make_float2(o[g * 4 + 2 * r], o[g * 4 + 2 * r + 1]);
      continue;
    }
    if (p.lse && quad == 0 && row < p.lq)
      p.lse[place.batch * p.lse_batch + place.head * p.lse_head + row] =
          C::kBiases ? fmaf(__log2f(rows.sum[r]), 0.69314718055994530942f, subtracted)
                     : (most + __log2f(rows.sum[r])) * 0.69314718055994530942f;
    const float inverse = C::kMasks && rows.sum[r] == 0 ? 0.0f : 1.0f / rows.sum[r];
    T* to = static_cast<T*>(p.out) + place.batch * p.out_batch + row * p.out_row + place.head * p.out_head;
#pragma unroll
    for (int g0 = 0; g0 < C::kDim / 8; g0 += 4) {
      uint32_t v[4];
#pragma unroll
      for (int g = 0; g < 4; ++g)
        v[g] = device::pack2(o[(g0 + g) * 4 + 2 * r] * inverse, o[(g0 + g) * 4 + 2 * r + 1] * inverse, T{});
      device::transpose_quad(v);
      const int column = (g0 + quad) * 8;
      if (row < p.lq && column < p.d)
        *reinterpret_cast<uint4*>(to + column) = make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
}

}  // namespace tachy::ops::flash
