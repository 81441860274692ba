// The final step of flash_sm90.cuh's work: combines the results of units that were cut along the keys.
#pragma once

#include "device/overlap.cuh"
#include "ops/attention/flash_sm90_units.cuh"

namespace tachy::ops::flash {

// Combines the shares of cut units (or their pieces, with lists) into out and lse; one warp per row, shares
// in the order of their keys. Grid: (rows of a unit / 8, units).
template <class C>
__global__ void __launch_bounds__(256) flash90_merge(const __grid_constant__ Params90 p, int clusters) {
  device::wait_for_previous_kernel();
  using T = typename C::T;
  constexpr int kEach = C::kDim / 32;
  const int lane = threadIdx.x & 31, in_unit = blockIdx.x * 8 + threadIdx.x / 32;
  const int unit = p.whole_units + blockIdx.y;
  const Place90 place(p, unit, in_unit / C::kRows, C{});
  const int row = place.row + in_unit % C::kRows;
  WalkOf90<C> walk(p);
  if constexpr (C::kLists) walk.enter(unit);
  const int steps = walk.steps();
  if (!C::kLists && steps == 0) return;  // already written
  [[maybe_unused]] const int begin = blockIdx.y * steps, end = begin + steps;
  // The shares of clusters [first, …) touch this unit.
  [[maybe_unused]] int first = 0;
  if constexpr (!C::kLists)
    while (Schedule90<C>::share_begin(p, steps, first + 1, clusters) <= begin) ++first;
  const auto for_each_share = [&](auto&& body) {
    if constexpr (C::kLists) {
      // If there are fewer steps than pieces, the first pieces have one each.
      for (int i = 0; i < min(steps, p.pieces); ++i)
        body(int64_t{static_cast<int>(blockIdx.y) * p.pieces + i} * C::kRows + in_unit);
    } else {
      for (int c = first; c < clusters; ++c) {
        const int from = Schedule90<C>::share_begin(p, steps, c, clusters);
        if (from >= end) break;
        if (from == Schedule90<C>::share_begin(p, steps, c + 1, clusters)) continue;  // an empty share
        body((int64_t{c} * 2 + (from < begin)) * (C::kCluster * C::kRows) + in_unit);
      }
    }
  };
  float most = -INFINITY;
  for_each_share([&](int64_t at) { most = fmaxf(most, p.share_sums[at].x); });
  float sum = 0, o[kEach] = {};
  bool over = false;
  for_each_share([&](int64_t at) {
    const float2 stats = p.share_sums[at];
    const float weight = exp2f(stats.x - most);
    sum += weight * stats.y;
    over = over || !(stats.y < C::kRoom);
#pragma unroll
    for (int i = 0; i < kEach; ++i) o[i] += weight * p.shares[at * C::kDim + i * 32 + lane];
  });
  if constexpr (!C::kTracks) {
    over = over || (steps > 0 && !(sum > C::kLeast));
    over = __syncthreads_or(over && row < p.lq);
    if (threadIdx.x == 0) p.outgrown[int64_t{unit} * C::kNotes + blockIdx.x] = over;
  }
  if (row >= p.lq) return;
  T* to = static_cast<T*>(p.out) + place.batch * p.out_batch + row * p.out_row + place.head * p.out_head;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < p.d) to[i * 32 + lane] = static_cast<T>(steps > 0 ? o[i] / sum : 0.0f);
  if (p.lse && lane == 0)
    p.lse[place.batch * p.lse_batch + place.head * p.lse_head + row] =
        (most + log2f(sum)) * 0.69314718055994530942f;
}

}  // namespace tachy::ops::flash
