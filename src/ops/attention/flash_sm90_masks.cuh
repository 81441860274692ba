// Causal masks and key biases for flash_sm90.cuh: which keys the queries of a unit see, and how a step
// changes their scores.
//
// A unit goes through the keys that its last query sees, and no others. So units differ in length, and they
// are distributed so that clusters finish at about the same time (MaskSchedule90). None is cut. A unit begins
// with the first keys, which a row sees if it sees any: their largest score is subtracted from the row for
// good (flash_sm90.cuh), and most steps need no mask. A row may see no key of a step, or none at all: the
// subtracted value is then -inf, which `exponentials` takes as 0.
#pragma once

#include "ops/attention/flash_sm90_work.cuh"

namespace tachy::ops::flash {

// Steps through the keys of each range that a unit sees; there is no step before enter(). Steps are taken
// from the last to the first, so the last one has the first keys here.
template <class C>
class MaskWalk90 {
 public:
  __device__ explicit MaskWalk90(const Params90& p) : p_(p) {
#pragma unroll
    for (int i = 0; i < C::kMaps; ++i)
      keys_[i] = i < p.ranges ? p.ranges_of[i].present() : 0, ends_[i] = clear_[i] = 0;
  }
  __device__ void enter(int unit) {
    const int first = unit % p_.units_per_head * C::kUnitRows, last = min(p_.lq, first + C::kUnitRows) - 1;
#pragma unroll
    for (int i = 0; i < C::kMaps; ++i) {
      ends_[i] = (i > 0 ? ends_[i - 1] : 0) + (seen(i, last) + C::kKeys - 1) / C::kKeys;
      clear_[i] = seen(i, first);
    }
  }
  __device__ int steps() const { return ends_[C::kMaps - 1]; }
  __device__ int range(int step) const {
    const int place = steps() - 1 - step;
    int r = 0;
#pragma unroll
    for (int i = 0; i + 1 < C::kMaps; ++i) r += place >= ends_[i];
    return r;
  }
  // The step's first key, as its index in the range.
  __device__ int key(int step) const {
    const int place = steps() - 1 - step;
    int first = 0;
#pragma unroll
    for (int i = 0; i + 1 < C::kMaps; ++i)
      if (place >= ends_[i]) first = ends_[i];
    return (place - first) * C::kKeys;
  }
  // Whether all rows of the unit see all keys of a step.
  __device__ bool clear(int range, int key) const {
    int keys = clear_[0];
#pragma unroll
    for (int i = 1; i < C::kMaps; ++i)
      if (range == i) keys = clear_[i];
    return key + C::kKeys <= keys;
  }
  // How many keys of a range (always the first ones) a query sees.
  __device__ int seen(int range, int row) const {
    int keys = keys_[0];
#pragma unroll
    for (int i = 1; i < C::kMaps; ++i)
      if (range == i) keys = keys_[i];
    const Range90& r = p_.ranges_of[range];
    return r.causal ? max(0, min(keys, causal_keys(row, r.offset, r.block))) : keys;
  }

 private:
  const Params90& p_;
  int keys_[C::kMaps], ends_[C::kMaps], clear_[C::kMaps];
};

// Adds the keys' biases, and then masks the keys that a thread's two rows do not see. With biases, scores are
// multiplied by the scale here: a bias of -FLT_MAX, a usual way to mask a key, would be infinite after
// multiplying it by log2(e). `first` is the warpgroup's first row.
template <class C>
__device__ __forceinline__ void mask_rows(float (&s)[C::kKeys / 2], const MaskWalk90<C>& walk,
                                          const Params90& p, int step, int batch, int first) {
  const int range = walk.range(step), key = walk.key(step), column = (threadIdx.x & 3) * 2;
  const Range90& r = p.ranges_of[range];
  if constexpr (C::kBiases) {
    const float* bias = r.bias ? r.bias + batch * r.bias_batch : nullptr;
#pragma unroll
    for (int g = 0; g < C::kKeys / 8; ++g)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float add = bias ? __ldg(bias + min(key + g * 8 + column + k, r.most - 1)) : 0.0f;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          float& score = s[g * 4 + 2 * row + k];
          score = fmaf(score, p.scale, add);
        }
      }
  }
  if (walk.clear(range, key)) return;
  const int row =
      first + static_cast<int>(threadIdx.x / 32 & 3) * 16 + static_cast<int>(threadIdx.x & 31) / 4;
  const int seen[2] = {walk.seen(range, row) - key, walk.seen(range, row + 8) - key};
#pragma unroll
  for (int g = 0; g < C::kKeys / 8; ++g)
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (g * 8 + column + k % 2 >= seen[k / 2]) s[g * 4 + k] = -INFINITY;
}

// The units of a causal head grow longer one by one: the first and the last together are as long as the
// second and the last but one. So if there are many, a cluster gets such pairs, of one head after the other.
// If there are few, they are distributed singly, the longest of all heads first, with every second round in
// the opposite direction.
template <class C>
class MaskSchedule90 {
 public:
  __device__ MaskSchedule90(const Params90& p, int, int cluster, int clusters)
      : p_(p),
        units_(p.units_per_head),
        heads_(p.whole_units / p.units_per_head),
        cluster_(cluster),
        clusters_(clusters) {}
  __device__ bool next(Segment90& s) {
    int unit;
    do {
      unit = heads_ * units_ >= 4 * clusters_ ? next_of_pairs() : next_of_all();
    } while (C::kRepair && unit >= 0 && !outgrown<C>(p_, unit));
    s = {unit, 0, 0, -1};
    return unit >= 0;
  }

 private:
  __device__ int next_of_pairs() {
    const int pairs = (units_ + 1) / 2;
    for (;; ++turn_) {
      const int pair = cluster_ + turn_ / 2 * clusters_, i = pair % pairs;
      if (pair >= heads_ * pairs) return -1;
      if (turn_ % 2 == 1 && 2 * i == units_ - 1) continue;  // the one in the middle has no partner
      const int block = turn_++ % 2 == 0 ? units_ - 1 - i : i;
      return pair / pairs * units_ + block;
    }
  }
  __device__ int next_of_all() {
    const int i = turn_ * clusters_ + (turn_ % 2 == 0 ? cluster_ : clusters_ - 1 - cluster_);
    if (i >= heads_ * units_) return -1;
    ++turn_;
    return i % heads_ * units_ + units_ - 1 - i / heads_;
  }
  const Params90& p_;
  int units_, heads_, cluster_, clusters_, turn_ = 0;
};
template <class C>
using ScheduleOf90 = std::conditional_t<C::kMasks, MaskSchedule90<C>, Schedule90<C>>;

template <class C>
using WalkOf90 =
    std::conditional_t<C::kLists, ListWalk90, std::conditional_t<C::kMasks, MaskWalk90<C>, Walk90<C>>>;

}  // namespace tachy::ops::flash
