// Rope tables of tokens whose place on a line depends on what they look at: in InfiniteTalk, which of two
// speakers a token shows, and how strongly. `shares` is the result of an attention whose values are masks,
// one channel per region, so it holds the part of a token's weights that falls on the region's keys. With the
// regions' sizes, the mean over heads, and m the first of the regions at which a token looks most,
//   A[m, t] = Σ_h shares[t, h, m] / (H·sizes[m])
//   p[t]    = low_m + 4·(A[m, t] − min A[m]) / (max A[m] − min A[m] + 1e-8)     low_m: 0, 20 for the second
//   p[t]    = 12 if m is the last region, the background
//   cos[t, i], sin[t, i] of p[t]·10000^(−i / n),   n pairs of a head
// No token looks at a region without keys. No matrix of tokens, heads and keys is made, because the attention
// is flash attention.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct RegionRopeArgs {
  static constexpr int kSpeakers = 2, kRegions = 3;
  static constexpr float kLow[kSpeakers] = {0, 20}, kSpan = 4, kBackground = 12, kEpsilon = 1e-8f;
  static constexpr double kTheta = 10000;
  // The places of the speakers' keys: each is the middle of the range that the speaker's tokens may have.
  static constexpr double kOfKeys[kSpeakers] = {2, 22};

  // [T, H, D] f32 (GPU: also 16 bit), D ≥ 3; only the first three channels are used; inner dim contiguous.
  Tensor shares;
  Tensor sizes;     // [3] f32: number of keys of each region
  Tensor cos, sin;  // [T, n] f32, contiguous
};

void region_rope(const RegionRopeArgs& args, Stream& stream);

}  // namespace tachy::ops
