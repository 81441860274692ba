// Flash attention on Hopper: out = softmax(q·kᵀ·scale)·v, warp-specialised.
//
//   block      128 queries of one head: two warpgroups of 64, and a third whose first thread loads
//   cluster    kCluster blocks with neighbouring queries share k and v: each loads its part of a tile for all
//   step       kKeys keys: s [64, kKeys] = q·kᵀ in registers, softmax there, o [64, D] += p·v with p there,
//   too
//
//   loader     K0 Q  K1 V0  K2 V1 … Vn       rings of kStages tiles of k and of v, full/empty barriers
//   warpgroup  s0; then for each step: issue s of this step, issue o += p·v of the step before, let the other
//              warpgroup issue, wait for s, compute its softmax while p·v runs, wait for p·v
//   turns      two named barriers: one warpgroup computes its softmax while the products of the other run
//
// Softmax in powers of two with scale·log2(e) folded into one multiply-add. What is subtracted from a row:
//   bf16       the largest score of the first step, for good: weights in bf16 and sums in float32 have room
//              for rows that outgrow it by 2^60 (kRoom). Rows that outgrow even that are noted, and a second
//              launch (kRepair) computes their units again as f16 does. So no step looks for its largest
//              score, which would be a fifth of the softmax's instructions.
//   f16        the largest so far, until a row outgrows it by 2^8: then o and the row's sum are scaled
// The last keys come first, so that only the first step of a unit can meet the end of the keys.
//
// Work is units of kCluster·128 queries of a head; one head's units run at the same time and share its k and
// v in the second-level cache. Whole rounds of units go to the clusters one by one. The units of a last,
// incomplete round are cut along the keys into equal shares, one a cluster, whose unnormalised results
// flash90_merge puts together.
#pragma once

#include "device/cache_policy.cuh"
#include "device/cluster.cuh"
#include "device/conv_pack.cuh"
#include "device/mma_sm80.cuh"
#include "device/ring.cuh"
#include "device/wgmma_attention.cuh"

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

template <class T_, int kDim_, int kKeys_, int kCluster_, bool kRepair_ = false>
struct Tile90 {
  using T = T_;
  static constexpr bool kRepair = kRepair_, kTracks = kRepair || std::is_same_v<T, __half>;
  static constexpr int kDim = kDim_, kKeys = kKeys_, kCluster = kCluster_, kStages = 2, kRows = 128;
  static constexpr int kHalves = kDim / 64;  // boxes of 64 columns, 128 bytes a row
  static constexpr int kPart = kKeys / kCluster;
  static constexpr int kUnitRows = kRows * kCluster, kNotes = kUnitRows / 8;
  static constexpr int kQBytes = kRows * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kSharedBytes = 1024 + kQBytes + 2 * kStages * kTileBytes;
  static_assert(kPart % 8 == 0 && kKeys % 16 == 0 && kDim % 64 == 0);
};

// What a cluster computes one after the other.
struct Segment90 {
  int unit = 0, begin = 0, end = 0;  // steps
  int share = -1;                    // of the cut units; -1: the whole unit
};

inline constexpr float kRoom = 0x1p60f;  // for a row's sum

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

// Barriers in shared memory, by their addresses.
template <class C>
struct Barriers90 {
  static constexpr int kCount = 2 + 4 * C::kStages;
  uint32_t base;
  __device__ uint32_t q_full() const { return base; }
  __device__ uint32_t q_empty() const { return base + 8; }
  __device__ uint32_t k_full(int i) const { return base + 16 + 8 * i; }
  __device__ uint32_t k_empty(int i) const { return k_full(i) + 8 * C::kStages; }
  __device__ uint32_t v_full(int i) const { return k_full(i) + 16 * C::kStages; }
  __device__ uint32_t v_empty(int i) const { return k_full(i) + 24 * C::kStages; }
};

// --- the loading thread

template <class C>
__device__ inline void flash90_load_tile(uint32_t to, const CUtensorMap& map, uint32_t full, uint32_t empty,
                                         device::RingPlace<C::kStages>& ring, int key, const Place90& place,
                                         uint32_t rank, uint64_t policy) {
  device::barrier_wait(empty, ring.parity ^ 1);
  device::barrier_expect(full, C::kTileBytes);
#pragma unroll
  for (int half = 0; half < C::kHalves; ++half)
    device::tma_load_all(to + ring.index * C::kTileBytes + half * (C::kKeys * 128) + rank * (C::kPart * 128),
                         &map, full, half * 64, key + static_cast<int>(rank) * C::kPart, place.head,
                         place.batch, (1 << C::kCluster) - 1, policy);
  ring.next();
}

template <class C>
__device__ inline void flash90_load(const Params90& p, const CUtensorMap& q_map, const CUtensorMap& k_map,
                                    const CUtensorMap& v_map, uint32_t q, uint32_t k, uint32_t v,
                                    Barriers90<C> b, uint32_t rank) {
  device::RingPlace<C::kStages> k_ring, v_ring;
  uint32_t q_parity = 0;
  const uint64_t stay = device::cache_policy<device::Keep::last>();
  Schedule90<C> schedule(p, blockIdx.x / C::kCluster, gridDim.x / C::kCluster);
  const auto load_k = [&](int step, const Place90& place) {
    flash90_load_tile<C>(k, k_map, b.k_full(k_ring.index), b.k_empty(k_ring.index), k_ring, step * C::kKeys,
                         place, rank, stay);
  };
  const auto load_v = [&](int step, const Place90& place) {
    flash90_load_tile<C>(v, v_map, b.v_full(v_ring.index), b.v_empty(v_ring.index), v_ring, step * C::kKeys,
                         place, rank, stay);
  };
  for (Segment90 s; schedule.next(s);) {
    const Place90 place(p, s.unit, rank, C{});
    load_k(s.end - 1, place);
    device::barrier_wait(b.q_empty(), q_parity ^ 1);
    device::barrier_expect(b.q_full(), C::kQBytes);
#pragma unroll
    for (int half = 0; half < C::kHalves; ++half)
      device::tma_load(q + half * (C::kRows * 128), &q_map, b.q_full(), half * 64, place.row, place.head,
                       place.batch);
    q_parity ^= 1;
    for (int step = s.end - 2; step >= s.begin; --step) load_k(step, place), load_v(step + 1, place);
    load_v(s.begin, place);
  }
}

// --- the two warpgroups that compute

// By each warp when it has read a tile: a lane for each block that loads parts of it.
template <class C>
__device__ __forceinline__ void flash90_release(uint32_t empty, uint32_t lane) {
  if constexpr (C::kCluster == 1) {
    if (lane == 0) device::barrier_arrive(empty);
  } else {
    if (lane < C::kCluster) device::barrier_arrive_at(empty, lane);
  }
}

__device__ __forceinline__ void turn_wait(int group) {
  asm volatile("bar.sync %0, 256;\n" ::"r"(1 + group) : "memory");
}
__device__ __forceinline__ void turn_give(int group) {
  asm volatile("bar.arrive %0, 256;\n" ::"r"(1 + group) : "memory");
}

template <class C>
__device__ __forceinline__ void flash90_scores(float (&s)[C::kKeys / 2], device::MatrixBase q,
                                               device::MatrixBase k) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < C::kDim / 16; ++c)
    device::wgmma<C::kKeys, typename C::T>(s, q.at(c / 4 * (C::kRows * 128) + c % 4 * 32),
                                           k.at(c / 4 * (C::kKeys * 128) + c % 4 * 32), c > 0);
  device::wgmma_commit();
}

template <class C>
__device__ __forceinline__ void flash90_sum_up(float (&o)[C::kDim / 2], uint32_t (&weights)[C::kKeys / 4],
                                               device::MatrixBase v) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < C::kKeys / 16; ++c)
    device::wgmma_weights<C::kDim, typename C::T>(o, weights + 4 * c, v.at(c * 2048));
  device::wgmma_commit();
}

// State of a thread's two rows.
struct Rows90 {
  float most[2];  // subtracted, in units of scores
  float sum[2];   // of this thread's columns
};

// The largest score of each of the two rows; four chains of comparisons side by side.
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

// s → exp2(s·scale − most·scale); adds to the rows' sums.
template <int N>
__device__ __forceinline__ void exponentials(float (&s)[N], Rows90& rows, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float minus = -rows.most[r] * scale;
    float sum0 = 0, sum1 = 0;
#pragma unroll
    for (int i = 2 * r; i < N; i += 4) {
      s[i] = device::exp2_approx(fmaf(s[i], scale, minus));
      s[i + 1] = device::exp2_approx(fmaf(s[i + 1], scale, minus));
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

// Sums of a whole unit, divided → out; or of a share, as they are.
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
    const bool any = __any_sync(~0u, !(rows.sum[0] < kRoom && rows.sum[1] < kRoom));
    uint8_t* notes = p.outgrown + int64_t{s.unit} * C::kNotes + (rank * 8 + group * 4 + warp) * 2;
    if (s.share < 0 && lane == 0) *reinterpret_cast<uint16_t*>(notes) = any;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_block = group * 64 + warp * 16 + r * 8 + lane / 4, row = place.row + in_block;
    const float most = rows.most[r] * p.scale_log2;
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
          (most + __log2f(rows.sum[r])) * 0.69314718055994530942f;
    const float inverse = 1.0f / rows.sum[r];
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

template <class C>
__device__ inline void flash90_compute(const Params90& p, uint32_t q_at, uint32_t k_at, uint32_t v_at,
                                       Barriers90<C> b, uint32_t rank) {
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0) - 1;  // known to be uniform
  const uint32_t lane = threadIdx.x & 31;
  device::RingPlace<C::kStages> k_ring, v_ring;
  uint32_t q_parity = 0;
  const auto q = device::uniform(device::k_major(q_at + group * (64 * 128)));
  const auto k_tile = [&] { return device::uniform(device::k_major(k_at + k_ring.index * C::kTileBytes)); };
  const auto v_tile = [&] {
    return device::uniform(device::transposed<C::kKeys>(v_at + v_ring.index * C::kTileBytes));
  };
  if (group == 1) turn_give(0);
  Schedule90<C> schedule(p, blockIdx.x / C::kCluster, gridDim.x / C::kCluster);
  for (Segment90 seg; schedule.next(seg);) {
    float s[C::kKeys / 2], o[C::kDim / 2];
    uint32_t weights[C::kKeys / 4];
    Rows90 rows{};
    device::barrier_wait(b.q_full(), q_parity);
    q_parity ^= 1;
    device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
    flash90_scores<C>(s, q, k_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(s);
    flash90_release<C>(b.k_empty(k_ring.index), lane);
    k_ring.next();
    if (seg.end * C::kKeys > p.lk) mask_end<C>(s, p.lk - (seg.end - 1) * C::kKeys);
    row_max(s, rows.most);
    exponentials(s, rows, p.scale_log2);
    pack_weights<C>(weights, s);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) o[i] = 0;

    for (int step = seg.end - 2; step >= seg.begin; --step) {
      const auto k = k_tile(), v = v_tile();
      device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
      turn_wait(group);
      flash90_scores<C>(s, q, k);
      device::barrier_wait(b.v_full(v_ring.index), v_ring.parity);
      flash90_sum_up<C>(o, weights, v);
      turn_give(group ^ 1);
      device::wgmma_wait<1>();
      device::wgmma_touch(s);
      flash90_release<C>(b.k_empty(k_ring.index), lane);
      k_ring.next();
      float factor[2] = {1, 1};
      bool rare = false;
      if constexpr (C::kTracks) {
        float most[2];
        row_max(s, most);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float grows = (most[r] - rows.most[r]) * p.scale_log2;
          if (grows > 8.0f) factor[r] = device::exp2_approx(-grows), rows.most[r] = most[r], rare = true;
        }
        rare = __any_sync(~0u, rare);
        if (rare) rows.sum[0] *= factor[0], rows.sum[1] *= factor[1];
      }
      exponentials(s, rows, p.scale_log2);
      if constexpr (!C::kTracks) rare = !(rows.sum[0] + rows.sum[1] < kRoom);
      // Two waits, so that they stay behind a branch on the exponentials: the assembler would move a single
      // one in front of them, and nothing would be left to run beside the product.
      if (rare) {
        asm volatile("wgmma.wait_group.sync.aligned 0; // rare\n" ::: "memory");
        device::wgmma_touch(o);
#pragma unroll
        for (int i = 0; i < C::kDim / 2; ++i) o[i] *= factor[i / 2 % 2];
      } else {
        device::wgmma_wait<0>();
        device::wgmma_touch(o);
      }
      device::wgmma_touch(weights);
      flash90_release<C>(b.v_empty(v_ring.index), lane);
      v_ring.next();
      pack_weights<C>(weights, s);
    }
    if (lane == 0) device::barrier_arrive(b.q_empty());
    device::barrier_wait(b.v_full(v_ring.index), v_ring.parity);
    flash90_sum_up<C>(o, weights, v_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(o);
    flash90_release<C>(b.v_empty(v_ring.index), lane);
    v_ring.next();
    const Place90 place(p, seg.unit, rank, C{});
    flash90_finish<C>(p, seg, place, rank, group, o, rows);
  }
}

// Whether this cluster has a unit to compute again. By all threads of a block; the same in all blocks of a
// cluster.
template <class C>
__device__ inline bool flash90_repairs(const Params90& p) {
  const int cluster = blockIdx.x / C::kCluster, clusters = gridDim.x / C::kCluster;
  bool any = false;
  for (int64_t unit = cluster + int64_t{threadIdx.x} * clusters; unit < p.whole_units;
       unit += 384 * int64_t{clusters})
    any = any || outgrown<C>(p, static_cast<int>(unit));
  return __syncthreads_or(any);
}

template <class C>
__global__ void __launch_bounds__(384, 1)
    flash90_kernel(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                   const __grid_constant__ CUtensorMap v_map, const __grid_constant__ Params90 p) {
  if constexpr (C::kRepair)
    if (!flash90_repairs<C>(p)) return;
  extern __shared__ char shared[];
  __shared__ uint64_t barriers[Barriers90<C>::kCount];
  // The swizzle follows address bits: tiles begin at multiples of its period (the same in all blocks of a
  // cluster).
  uint32_t q = (device::shared_address(shared) + 1023) & ~1023u;
  Barriers90<C> b{device::shared_address(barriers)};
  asm volatile("" : "+r"(q), "+r"(b.base));  // kept, not made anew at each use
  const uint32_t k = q + C::kQBytes, v = k + C::kStages * C::kTileBytes;
  const uint32_t rank = C::kCluster > 1 ? device::cluster_rank() : 0;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    constexpr int kWarps = 8;
    device::barrier_init(b.q_full(), 1), device::barrier_init(b.q_empty(), kWarps);
    for (int i = 0; i < C::kStages; ++i) {
      device::barrier_init(b.k_full(i), 1), device::barrier_init(b.v_full(i), 1);
      device::barrier_init(b.k_empty(i), kWarps * C::kCluster),
          device::barrier_init(b.v_empty(i), kWarps * C::kCluster);
    }
    device::barrier_init_fence();
    device::tma_prefetch(&q_map), device::tma_prefetch(&k_map), device::tma_prefetch(&v_map);
  }
  if constexpr (C::kCluster > 1)
    device::cluster_sync();
  else
    __syncthreads();
  if (warp < 4) {
    device::give_registers<24>();  // (168 − 24)·128 = (240 − 168)·256: the block starts with 168 a thread
    if (warp == 0 && threadIdx.x % 32 == 0) flash90_load<C>(p, q_map, k_map, v_map, q, k, v, b, rank);
  } else {
    device::take_registers<240>();
    flash90_compute<C>(p, q, k, v, b, rank);
  }
  // No block leaves while another may still arrive at its barriers or load into it.
  __syncwarp();
  if constexpr (C::kCluster > 1) device::cluster_sync();
}

// Shares of cut units → out and lse; a warp a row, shares in the order of their keys. Grid: (rows of a unit /
// 8, units).
template <class C>
__global__ void __launch_bounds__(256) flash90_merge(const __grid_constant__ Params90 p, int clusters) {
  using T = typename C::T;
  constexpr int kEach = C::kDim / 32;
  const int lane = threadIdx.x & 31, in_unit = blockIdx.x * 8 + threadIdx.x / 32;
  const int unit = p.whole_units + blockIdx.y;
  const Place90 place(p, unit, in_unit / C::kRows, C{});
  const int row = place.row + in_unit % C::kRows;
  const int begin = blockIdx.y * p.steps, end = begin + p.steps;
  // The shares of clusters [first, …) touch this unit.
  int first = 0;
  while (Schedule90<C>::share_begin(p, first + 1, clusters) <= begin) ++first;
  const auto for_each_share = [&](auto&& body) {
    for (int c = first; c < clusters; ++c) {
      const int from = Schedule90<C>::share_begin(p, c, clusters);
      if (from >= end) break;
      if (from == Schedule90<C>::share_begin(p, c + 1, clusters)) continue;  // an empty one
      body((int64_t{c} * 2 + (from < begin)) * (C::kCluster * C::kRows) + in_unit);
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
    over = over || !(stats.y < kRoom);
#pragma unroll
    for (int i = 0; i < kEach; ++i) o[i] += weight * p.shares[at * C::kDim + i * 32 + lane];
  });
  if constexpr (!C::kTracks) {
    over = __syncthreads_or(over && row < p.lq);
    if (threadIdx.x == 0) p.outgrown[int64_t{unit} * C::kNotes + blockIdx.x] = over;
  }
  if (row >= p.lq) return;
  T* to = static_cast<T*>(p.out) + place.batch * p.out_batch + row * p.out_row + place.head * p.out_head;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (i * 32 + lane < p.d) to[i * 32 + lane] = static_cast<T>(o[i] / sum);
  if (p.lse && lane == 0)
    p.lse[place.batch * p.lse_batch + place.head * p.lse_head + row] =
        (most + log2f(sum)) * 0.69314718055994530942f;
}

}  // namespace tachy::ops::flash
