// The work of flash_sm90.cuh's blocks, and its order: units of queries of one head, some
// of them cut along the keys.
#pragma once

#include "device/cluster.cuh"
#include "device/conv_pack.cuh"
#include "ops/attention/key_ranges.cuh"

namespace tachy::ops::flash {

// One range of keys.
struct Range90 {
  int most;
  const int32_t* there;  // how many keys exist; null if all do
  const float* bias;     // [B, most] or null; only the kernels for masks use biases and masks
  int64_t bias_batch;
  int offset, block;
  bool causal;
  __device__ __forceinline__ int present() const { return there ? max(0, min(most, *there)) : most; }
};

struct Params90 {
  void* out;
  int64_t out_batch, out_row, out_head;
  float* lse;  // may be null
  int64_t lse_batch, lse_head;
  // [unit][kNotes]: not 0 if rows outgrew the subtracted value; null if that value is tracked.
  uint8_t* outgrown;
  unsigned long long* again;  // counts groups of 16 queries whose units are computed again; may be null
  // For each share (two per cluster) and row of a unit: D unnormalised sums, the subtracted maximum of
  // scores·scale·log2(e), and the sum of the weights.
  float* shares;
  float2* share_sums;
  int lq, lk, d, heads;
  Range90 ranges_of[1 + KeyRanges::kMost];  // lk: an upper bound for the total of their keys
  int ranges;
  int units_per_head;  // units of one head of one sample
  int whole_units;     // units that are not cut
  int cut_units;       // units after them that are
  float scale, scale_log2;
  Lists lists;       // lists of key blocks; the next three exist only with lists:
  int pieces;        // number of pieces of each cut unit
  int32_t* order;    // the whole units, in the order in which they are handed out
  uint32_t* ticket;  // how many units and pieces have been handed out
};

// kBare: scores are already exponents of two (scale·log2(e) is 1) and nothing is subtracted from them.
// Keys90 says which keys there are: all of one range; several ranges, or one whose length lies on the device;
// ranges with causal masks, or with biases and masks; or listed blocks.
enum class Keys90 { whole, ranges, masks, biases, lists };

template <class T_, int kDim_, int kKeys_, int kCluster_, bool kBare_ = false, bool kRepair_ = false,
          Keys90 kOf_ = Keys90::whole>
struct Tile90 {
  using T = T_;
  static constexpr bool kRepair = kRepair_, kBare = kBare_;
  static constexpr bool kRanges = kOf_ == Keys90::ranges, kBiases = kOf_ == Keys90::biases,
                        kMasks = kBiases || kOf_ == Keys90::masks, kLists = kOf_ == Keys90::lists;
  // Any step, not only the last, may contain keys that are not seen, and a unit may have no steps at all.
  static constexpr bool kPartial = kRanges || kMasks || kLists;
  static constexpr bool kOwnSteps = kMasks || kLists;    // each unit has its own number of steps
  static constexpr bool kHandsOut = kLists && !kRepair;  // free blocks draw units (flash_sm90_units.cuh)
  static constexpr bool kTracks =
      kRepair || std::is_same_v<T, __half> || ((kRanges || kLists || kBiases) && !kBare);
  static constexpr int kMaps = kRanges || kMasks ? 1 + KeyRanges::kMost : 1;
  static constexpr int kDim = kDim_, kKeys = kKeys_, kCluster = kCluster_, kStages = 2, kRows = 128;
  static constexpr int kHalves = kDim / 64;  // boxes of 64 columns, 128 bytes per row
  static constexpr int kPart = kKeys / kCluster;
  static constexpr int kUnitRows = kRows * kCluster, kNotes = kUnitRows / 8;
  static constexpr int kQBytes = kRows * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kRingBytes = 1024 + 2 * kStages * kTileBytes;
  // The next unit's queries are loaded early if there is room for two.
  static constexpr int kQStages = kRingBytes + 2 * kQBytes <= 227 * 1024 ? 2 : 1;
  static constexpr int kSharedBytes = kRingBytes + kQStages * kQBytes;
  // A block starts with 168 registers per thread: (168 − 40)·128 = (232 − 168)·256. With 24 the loader
  // spills, which is hidden by long steps; these need all of 240.
  static constexpr int kLoaderRegisters = kKeys > 128 ? 24 : 40, kRegisters = kKeys > 128 ? 240 : 232;
  // A row is computed again if its weights add up to more than kRoom or (if nothing is
  // subtracted) to less than kLeast.
  static constexpr float kRoom = kBare ? 0x1p100f : 0x1p60f, kLeast = kBare ? 0x1p-80f : 0.0f;
  static_assert(kPart % 8 == 0 && kKeys % 16 == 0 && kDim % 64 == 0 && !(kBare && kTracks) &&
                !(kBare && kBiases));
  // A step is a listed block, and a unit the queries of one list.
  static_assert(!kLists || (kKeys == BlockLists::kTokens && kUnitRows == BlockLists::kTokens));
};

template <class C>
struct Maps90 {
  CUtensorMap q, k[C::kMaps], v[C::kMaps];
};

// Steps of kKeys keys through the ranges, one range after the other; no step has keys of two ranges.
template <class C>
class Walk90 {
 public:
  __device__ explicit Walk90(const Params90& p) {
#pragma unroll
    for (int i = 0; i < C::kMaps; ++i) {
      if constexpr (C::kRanges) {
        keys_[i] = i < p.ranges ? p.ranges_of[i].present() : 0;
      } else {
        keys_[i] = p.lk;
      }
      ends_[i] = (i > 0 ? ends_[i - 1] : 0) + (keys_[i] + C::kKeys - 1) / C::kKeys;
    }
  }
  __device__ int steps() const { return ends_[C::kMaps - 1]; }
  __device__ int range(int step) const {
    int r = 0;
#pragma unroll
    for (int i = 0; i + 1 < C::kMaps; ++i) r += step >= ends_[i];
    return r;
  }
  // The step's first key, as its index in the range.
  __device__ int key(int step) const { return (step - begin(step)) * C::kKeys; }
  // How many keys there are from the step's first one to the end of the range; fewer than
  // kKeys in a range's last step.
  __device__ int present(int step) const {
    int keys = keys_[0];
#pragma unroll
    for (int i = 0; i + 1 < C::kMaps; ++i)
      if (step >= ends_[i]) keys = keys_[i + 1];
    return keys - key(step);
  }

 private:
  __device__ int begin(int step) const {
    int first = 0;
#pragma unroll
    for (int i = 0; i + 1 < C::kMaps; ++i)
      if (step >= ends_[i]) first = ends_[i];
    return first;
  }
  int keys_[C::kMaps], ends_[C::kMaps];
};

// Steps through the blocks in a unit's list; there is no step before enter().
class ListWalk90 {
 public:
  __device__ explicit ListWalk90(const Params90& p) : p_(p) {}
  __device__ void enter(int unit) {
    const int block = unit % p_.units_per_head, other = unit / p_.units_per_head;
    const int head = other % p_.heads, batch = other / p_.heads;
    list_ = p_.lists.list(batch, head, block), steps_ = p_.lists.count(batch, head, block);
  }
  // For callers that know the number of steps and do not ask for it.
  __device__ void enter_list(int unit) {
    const int other = unit / p_.units_per_head;
    list_ = p_.lists.list(other / p_.heads, other % p_.heads, unit % p_.units_per_head);
  }
  __device__ int steps() const { return steps_; }
  __device__ int range(int) const { return 0; }
  __device__ int key(int step) const {
    return p_.lists.block(list_, step) * static_cast<int>(BlockLists::kTokens);
  }
  // How many keys there are from the step's first one to the last; fewer than a block only in the last block.
  __device__ int present(int step) const { return p_.lk - key(step); }

 private:
  const Params90& p_;
  const int32_t* list_ = nullptr;
  int steps_ = 0;
};

// One of the parts that a cluster computes one after the other.
struct Segment90 {
  int unit = 0, begin = 0, end = 0;  // begin and end are steps
  int share = -1;                    // which share of the cut units; -1 for a whole unit
};

// Whether rows of the unit outgrew the subtracted value.
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
  __device__ Schedule90(const Params90& p, int steps, int cluster, int clusters)
      : p_(p), steps_(steps), cluster_(cluster), clusters_(clusters), next_(cluster) {
    // Without a key there is nothing to cut.
    whole_ = C::kRanges && steps == 0 ? p.whole_units + p.cut_units : p.whole_units;
    from_ = share_begin(p, steps, cluster, clusters), to_ = share_begin(p, steps, cluster + 1, clusters);
  }
  // Shares follow one another over the steps of all cut units; if steps cannot be divided evenly, the first
  // shares have one more.
  __device__ static int share_begin(const Params90& p, int steps, int cluster, int clusters) {
    const int all = p.cut_units * steps;
    return all / clusters * cluster + min(all % clusters, cluster);
  }
  __device__ bool next(Segment90& s) {
    if constexpr (C::kRepair)
      while (next_ < whole_ && !outgrown<C>(p_, next_)) next_ += clusters_;
    if (next_ < whole_) {
      s = {next_, 0, steps_, -1};
      next_ += clusters_;
      return true;
    }
    if (from_ >= to_) return false;
    const int unit = from_ / steps_, begin = from_ % steps_, end = min(to_ - from_ + begin, steps_);
    s = {p_.whole_units + unit, begin, end, cluster_ * 2 + share_++};
    from_ += end - begin;
    return true;
  }

 private:
  const Params90& p_;
  int steps_, cluster_, clusters_, whole_, next_, from_, to_, share_ = 0;
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

// Barriers in shared memory, by their addresses. Each warpgroup has its own for its queries, because one may
// be a step ahead of the other.
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
