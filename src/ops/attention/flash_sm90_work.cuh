// What the blocks of flash_sm90.cuh compute, and in which order: units of queries of one head, some of them cut
// along the keys.
#pragma once

#include "device/cluster.cuh"
#include "device/conv_pack.cuh"

namespace tachy::ops::flash {

struct Params90 {
  void* out;
  int64_t out_batch, out_row, out_head;
  float* lse;  // or null
  int64_t lse_batch, lse_head;
  // [unit][kNotes]: not 0 where rows outgrew what was subtracted; null where that is tracked.
  uint8_t* outgrown;
  // Of each share (two a cluster) and row of a unit: D unnormalised sums; the subtracted maximum of
  // scores·scale·log2(e) and the sum of the weights.
  float* shares;
  float2* share_sums;
  int lq, lk, d, heads;
  int steps;           // of kKeys keys
  int units_per_head;  // units of one head of one sample
  int whole_units;     // not cut
  int cut_units;       // behind them
  float scale_log2;
};

// kBare: scores are exponents of two as they come (scale·log2(e) is 1) and nothing is subtracted from them.
template <class T_, int kDim_, int kKeys_, int kCluster_, bool kBare_ = false, bool kRepair_ = false>
struct Tile90 {
  using T = T_;
  static constexpr bool kRepair = kRepair_, kTracks = kRepair || std::is_same_v<T, __half>;
  static constexpr bool kBare = kBare_;
  static constexpr int kDim = kDim_, kKeys = kKeys_, kCluster = kCluster_, kStages = 2, kRows = 128;
  static constexpr int kHalves = kDim / 64;  // boxes of 64 columns, 128 bytes a row
  static constexpr int kPart = kKeys / kCluster;
  static constexpr int kUnitRows = kRows * kCluster, kNotes = kUnitRows / 8;
  static constexpr int kQBytes = kRows * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kRingBytes = 1024 + 2 * kStages * kTileBytes;
  // The next unit's queries come early where there is room for two.
  static constexpr int kQStages = kRingBytes + 2 * kQBytes <= 227 * 1024 ? 2 : 1;
  static constexpr int kSharedBytes = kRingBytes + kQStages * kQBytes;
  // A block starts with 168 registers a thread: (168 − 40)·128 = (232 − 168)·256. With 24 the loader spills, which
  // long steps hide; they need all of 240.
  static constexpr int kLoaderRegisters = kKeys > 128 ? 24 : 40, kRegisters = kKeys > 128 ? 240 : 232;
  // A row whose weights add up to more, or (where nothing is subtracted) to less, is computed again.
  static constexpr float kRoom = kBare ? 0x1p100f : 0x1p60f, kLeast = kBare ? 0x1p-80f : 0.0f;
  static_assert(kPart % 8 == 0 && kKeys % 16 == 0 && kDim % 64 == 0 && !(kBare && kTracks));
};

// What a cluster computes one after the other.
struct Segment90 {
  int unit = 0, begin = 0, end = 0;  // steps
  int share = -1;                    // of the cut units; -1: the whole unit
};

// Whether rows of the unit outgrew what was subtracted.
template <class C>
__device__ inline bool outgrown(const Params90& p, int unit) {
  const uint4* notes = reinterpret_cast<const uint4*>(p.outgrown + int64_t{unit} * C::kNotes);
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < C::kNotes / 16; ++i) any |= notes[i].x | notes[i].y | notes[i].z | notes[i].w;
  return any != 0;
}

template <class C>
class Schedule90 {
 public:
  __device__ Schedule90(const Params90& p, int cluster, int clusters)
      : p_(p), cluster_(cluster), clusters_(clusters), next_(cluster) {
    from_ = share_begin(p, cluster, clusters), to_ = share_begin(p, cluster + 1, clusters);
  }
  // Shares follow one another over the steps of all cut units; the first ones are a step longer where they do
  // not come out even.
  __device__ static int share_begin(const Params90& p, int cluster, int clusters) {
    const int steps = p.cut_units * p.steps;
    return steps / clusters * cluster + min(steps % clusters, cluster);
  }
  __device__ bool next(Segment90& s) {
    if constexpr (C::kRepair)
      while (next_ < p_.whole_units && !outgrown<C>(p_, next_)) next_ += clusters_;
    if (next_ < p_.whole_units) {
      s = {next_, 0, p_.steps, -1};
      next_ += clusters_;
      return true;
    }
    if (from_ >= to_) return false;
    const int unit = from_ / p_.steps, begin = from_ % p_.steps, end = min(to_ - from_ + begin, p_.steps);
    s = {p_.whole_units + unit, begin, end, cluster_ * 2 + share_++};
    from_ += end - begin;
    return true;
  }

 private:
  const Params90& p_;
  int cluster_, clusters_, next_, from_, to_, share_ = 0;
};

struct Place90 {
  int batch, head, row;  // first row of this block
  template <class C>
  __device__ Place90(const Params90& p, int unit, uint32_t rank, C) {
    row = (unit % p.units_per_head * C::kCluster + static_cast<int>(rank)) * C::kRows;
    const int other = unit / p.units_per_head;
    head = other % p.heads, batch = other / p.heads;
  }
};

// Barriers in shared memory, by their addresses. Each warpgroup has its own for its queries: one may be a step
// ahead of the other.
template <class C>
struct Barriers90 {
  static constexpr int kOfQ = 4 * C::kQStages, kCount = kOfQ + 4 * C::kStages;
  uint32_t base;
  __device__ uint32_t q_full(int i, int group) const { return base + 16 * i + 8 * group; }
  __device__ uint32_t q_empty(int i, int group) const { return q_full(i, group) + 16 * C::kQStages; }
  __device__ uint32_t k_full(int i) const { return base + 8 * kOfQ + 8 * i; }
  __device__ uint32_t k_empty(int i) const { return k_full(i) + 8 * C::kStages; }
  __device__ uint32_t v_full(int i) const { return k_full(i) + 16 * C::kStages; }
  __device__ uint32_t v_empty(int i) const { return k_full(i) + 24 * C::kStages; }
};

}  // namespace tachy::ops::flash
