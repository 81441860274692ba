// Flash attention on Hopper with both products in 8 bits: out = softmax(q·kᵀ)·v. It is organised like
// flash_sm90.cuh (128 queries per block, clusters of two, a loading warp, two warpgroups), except that its
// warpgroups do not alternate. flash8_codes.cuh and flash8_quantize_sm90.cuh prepare its input:
//   q, k   int8, after a Hadamard transform; k without its mean. q has a scale per token, k one per 128
//          tokens; their product turns the integer q·k into the exponent of two
//   v      e4m3 and transposed, with a scale per channel
//
// A step is 128 keys. Its weights are rounded to e4m3, scaled so that the largest of the first step is 2^5.
// If a weight rounds to e4m3's end of 448, which is rare and is detected in the rounded weights, its row gets
// a new scale. The weights' sum is a column of ones beside v, so it is the sum of the rounded ones. The
// tensor cores keep about 13 bits of a sum in e4m3, so each step's sum is added to float32 totals.
//
// The last keys come first, so that only the first step of a unit can meet the end of the keys. The units of
// a last, incomplete round are cut along the keys as in flash_sm90.cuh, and merged by the same kernel.
//
// As a guard, three kinds of rows are noted: those whose scores 8 bits cannot tell apart (q's scale times k's
// largest is beyond kCoarsest), those of heads whose values do not fit (Head8::broken), and those without a
// sum. As in flash_sm90.cuh, a repairing launch computes their units again in bf16.
#pragma once

#include "device/wgmma_bytes.cuh"
#include "ops/attention/flash8_head.cuh"
#include "ops/attention/flash_sm90.cuh"

namespace tachy::ops::flash {

struct Params8 {
  Params90 to;                // where results, notes and shares go, and how the units are distributed
  const float* q_scales;      // [B·H, Lq], scales for exponents of two
  const float* q_offsets;     // [B·H, Lq], if there is an lse: what k's mean adds to a row's exponents
  const float* k_scales;      // [B·H, steps]
  const float* v_scales;      // [B·H, 128]
  const Head8* about;         // [B·H]
  unsigned long long* asked;  // counts groups of 16 queries (cuda/attention_tally.h)
  int steps;
};

struct Tile8 {
  // The tile for Schedule90 and flash90_merge: no tracking as in f16, no ranges, no lists.
  using T = __nv_bfloat16;
  static constexpr bool kRepair = false, kTracks = false, kRanges = false, kBiases = false, kMasks = false,
                        kLists = false;
  static constexpr int kDim = 128, kMaps = 1;
  static constexpr float kRoom = INFINITY, kLeast = 0;

  static constexpr int kKeys = 128, kStages = 3, kCluster = 2, kRows = 128, kUnitRows = kRows * kCluster;
  static constexpr int kNotes = kUnitRows / 8;
  static constexpr int kQBytes = kRows * 128, kKBytes = kKeys * 128;
  static constexpr int kVLoaded = 128 * kKeys, kVBytes = (128 + 8) * kKeys;  // rows of ones lie after it
  static constexpr int kSharedBytes = 1024 + 2 * kQBytes + kStages * (kKBytes + kVBytes);
  static constexpr int kLoaderRegisters = 24, kRegisters = 240;
};

struct Maps8 {
  CUtensorMap q, k, v;
};

inline constexpr float kLargest8 = 5;  // the exponent that a row's largest weight gets
// A row with a larger weight gets a new scale: e4m3 ends at 448, and rounds 433 to it.
inline constexpr float kHighest8 = 416;
// How many weights of a step a thread computes before it waits for the products of the step before. None of
// 0, 8, 12, 20, 24, 32, 48 and 64 was faster.
inline constexpr int kEarly8 = 16;

struct Barriers8 {
  uint32_t base;
  static constexpr int kCount = 8 + 4 * Tile8::kStages;
  __device__ uint32_t q_full(int i, int g) const { return base + 8 * (i * 2 + g); }
  __device__ uint32_t q_empty(int i, int g) const { return base + 32 + 8 * (i * 2 + g); }
  __device__ uint32_t k_full(int i) const { return base + 64 + 8 * i; }
  __device__ uint32_t k_empty(int i) const { return k_full(i) + 8 * Tile8::kStages; }
  __device__ uint32_t v_full(int i) const { return k_full(i) + 16 * Tile8::kStages; }
  __device__ uint32_t v_empty(int i) const { return k_full(i) + 24 * Tile8::kStages; }
};

// The i-th segment of this cluster, as Schedule90 distributes them. It is computed from i alone,
// because Schedule90's state would cost the computing warpgroups registers that they do not have
// (870 TFLOP/s instead of 930).
__device__ inline bool segment8(const Params90& p, int steps, int i, Segment90& s) {
  using Shares = Schedule90<Tile8>;
  const int cluster = blockIdx.x / Tile8::kCluster, clusters = gridDim.x / Tile8::kCluster;
  const int mine = cluster < p.whole_units ? (p.whole_units - cluster + clusters - 1) / clusters : 0;
  if (i < mine) {
    s = {cluster + i * clusters, 0, steps, -1};
    return true;
  }
  int from = Shares::share_begin(p, steps, cluster, clusters);
  const int to = Shares::share_begin(p, steps, cluster + 1, clusters);
  for (int share = 0; from < to; ++share) {
    const int unit = from / steps, begin = from % steps, end = min(to - from + begin, steps);
    s = {p.whole_units + unit, begin, end, cluster * 2 + share};
    if (i == mine + share) return true;
    from += end - begin;
  }
  return false;
}

__device__ inline void flash8_load(const Params8& p, const Maps8& maps, uint32_t q, uint32_t k, uint32_t v,
                                   Barriers8 b, uint32_t rank) {
  using C = Tile8;
  device::RingPlace<C::kStages> k_ring, v_ring;
  device::RingPlace<2> q_ring;
  const uint64_t stay = device::cache_policy<device::Keep::last>();
  const int part = static_cast<int>(rank) * 64;
  Segment90 s;
  for (int i = 0; segment8(p.to, p.steps, i, s); ++i) {
    const int head = s.unit / p.to.units_per_head, row = Place90(p.to, s.unit, rank, C{}).row;
    const auto load_k = [&](int step) {
      device::barrier_wait(b.k_empty(k_ring.index), k_ring.parity ^ 1);
      device::barrier_expect(b.k_full(k_ring.index), C::kKBytes);
      device::tma_load_all(k + k_ring.index * C::kKBytes + part * 128, &maps.k, b.k_full(k_ring.index), 0,
                           step * C::kKeys + part, head, 0, 3, stay);
      k_ring.next();
    };
    const auto load_v = [&](int step) {
      device::barrier_wait(b.v_empty(v_ring.index), v_ring.parity ^ 1);
      device::barrier_expect(b.v_full(v_ring.index), C::kVLoaded);
      device::tma_load_all(v + v_ring.index * C::kVBytes + part * C::kKeys, &maps.v, b.v_full(v_ring.index),
                           step * (C::kKeys / 2), part, head, 0, 3, stay);
      v_ring.next();
    };
    load_k(s.end - 1);
    for (int g = 0; g < 2; ++g) {
      device::barrier_wait(b.q_empty(q_ring.index, g), q_ring.parity ^ 1);
      device::barrier_expect(b.q_full(q_ring.index, g), C::kQBytes / 2);
      device::tma_load(q + q_ring.index * C::kQBytes + g * (C::kQBytes / 2), &maps.q,
                       b.q_full(q_ring.index, g), 0, row + g * 64, head, 0);
    }
    q_ring.next();
    for (int step = s.end - 2; step >= s.begin; --step) load_k(step), load_v(step + 1);
    load_v(s.begin);
  }
}

__device__ __forceinline__ void flash8_scores(uint32_t (&s)[64], device::MatrixBase q, device::MatrixBase k) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; ++c) device::wgmma_bytes(s, q.at(c * 32), k.at(c * 32), c > 0);
  device::wgmma_commit();
}

__device__ __forceinline__ void flash8_sum_up(float (&o)[device::kWeightSums], uint32_t (&w)[16],
                                              device::MatrixBase v) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; ++c) device::wgmma_weights8(o, w + 4 * c, v.at(c * 32), c > 0);
  device::wgmma_commit();
}

// State of a thread's two rows.
struct Rows8 {
  float q_scale[2], minus[2];  // the exponent of a score is score·q_scale·k_scale + minus
  float total[2];              // sum of weights
};

// The weights for a step's scores [kFrom, kTo).
template <int kFrom = 0, int kTo = 64>
__device__ __forceinline__ void soften8(const uint32_t (&s)[64], float (&e)[64], const Rows8& rows,
                                        float k_scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float factor = rows.q_scale[r] * k_scale, minus = fmaf(-kMagic, factor, rows.minus[r]);
#pragma unroll
    for (int i = kFrom + 2 * r; i < kTo; i += i % 2 ? 3 : 1)
      e[i] = device::exp2_approx(fmaf(__uint_as_float(s[i] + kMagicBits), factor, minus));
  }
}
// Packs four weights into a register.
__device__ __forceinline__ void pack8(uint32_t (&w)[16], const float (&e)[64]) {
#pragma unroll
  for (int c = 0; c < 8; ++c)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float *even = e + 8 * c + 2 * r, *odd = even + 4;
      w[2 * c + r] = device::pack_e4m3(even[0], even[1], odd[0], odd[1]);
    }
}

}  // namespace tachy::ops::flash
