// Rope tables of tokens whose place on a line follows from what they look at: in InfiniteTalk, which of two speakers a
// token shows, and how much so. `shares` is what an attention gives whose values are masks, one channel a region: the part
// of a token's weights that falls on the region's keys. With the regions' sizes, the mean over heads and m the first region
// that a token looks at most,
//   A[m, t] = Σ_h shares[t, h, m] / (H·sizes[m])
//   p[t]    = low_m + 4·(A[m, t] − min A[m]) / (max A[m] − min A[m] + 1e-8)     low 0 of the first speaker, 20 of the second
//   p[t]    = 12                                                               where m is the last region, the background
//   cos[t, i], sin[t, i] of p[t]·10000^(−i / n),   n pairs of a head
// A region of no keys is one that no token looks at. Without a token by head by key matrix: the attention is flash attention.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct RegionRopeArgs {
  static constexpr int kSpeakers = 2, kRegions = 3;
  static constexpr float kLow[kSpeakers] = {0, 20}, kSpan = 4, kBackground = 12, kEpsilon = 1e-8f;
  static constexpr double kTheta = 10000;
  // Where a speaker's keys are: the middle of what its tokens may have.
  static constexpr double kOfKeys[kSpeakers] = {2, 22};

  Tensor
      shares;  // [T, H, D] f32 (GPU: also 16 bit), D ≥ 3, of which the first three channels count; inner dim contiguous
  Tensor sizes;     // [3] f32: keys of each region
  Tensor cos, sin;  // [T, n] f32, contiguous
};

void region_rope(const RegionRopeArgs& args, Stream& stream);

}  // namespace tachy::ops
