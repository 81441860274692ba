// Flash attention on Hopper, out = softmax(q·kᵀ·scale)·v, by specialised warps.
//
//   block      128 queries of one head: two warpgroups of 64, and a third whose first thread loads
//   cluster    kCluster blocks with neighbouring queries share k and v: each loads its part of a tile for all
//   step       kKeys keys: s [64, kKeys] = q·kᵀ and its softmax p stay in registers; o [64, D] += p·v
//
//   loader     K0 Q  K1 V0  K2 V1 … Vn       rings of kStages tiles of k and of v, full/empty barriers
//   warpgroup  s0; then for each step: issue s of this step, issue o += p·v of the step before, let the other
//              warpgroup issue, wait for s, compute its softmax while p·v runs, wait for p·v
//   turns      two named barriers: one warpgroup computes its softmax while the products of the other run
//
// The softmax is in powers of two, with scale·log2(e) folded into one multiply-add. The value
// subtracted from a row is:
//   powers     nothing, if q already contains scale·log2(e) (attention.h's kPowersOfTwo): bf16 and float32
//              hold 2^±100, and a multiply-add per score is saved
//   bf16       the largest score of the first step, for good: weights in bf16 and sums in float32 have room
//              for rows that outgrow it by 2^60. So no step needs to find its largest score, which would be a
//              fifth of the softmax's instructions.
//   f16        the largest score so far: if a row outgrows it by 2^8, o and the row's sum are scaled
// Rows whose weights add up to too much (kRoom) or too little (kLeast) are noted, and a second launch
// (kRepair) computes their units again as for f16. The last keys come first, so that only the first step of a
// unit can meet the end of the keys. With several ranges of keys (kRanges) the last step of each range can,
// and with listed blocks (kLists) any step. With causal masks the first keys come first.
//
// Work is divided into units of kCluster·128 queries of a head; one head's units run at the same time and
// share its k and v in the second-level cache. Whole rounds of units go to the clusters one by one. The units
// of a last, incomplete round are cut along the keys into equal shares, one per cluster, whose unnormalised
// results flash90_merge combines.
//
// With causal masks or key biases (kMasks) a unit has only the steps that it sees (flash_sm90_masks.cuh).
//
// With lists of key blocks a unit is one block of queries, which does not share its keys with another, so
// there are no clusters; a step is a listed block. Units go to whichever block of threads is free
// (flash_sm90_units.cuh).
#pragma once

#include "device/overlap.cuh"
#include "device/ring.cuh"
#include "device/wgmma_attention.cuh"
#include "ops/attention/flash_sm90_rows.cuh"
#include "ops/attention/flash_sm90_units.cuh"

namespace tachy::ops::flash {

// --- the loading thread

// Loads this block's part of a tile into all blocks of the cluster.
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
__device__ inline void flash90_load(const Params90& p, const Maps90<C>& maps, uint32_t q, uint32_t k,
                                    uint32_t v, Barriers90<C> b, uint32_t rank,
                                    [[maybe_unused]] Handed90<C>* handed) {
  device::RingPlace<C::kStages> k_ring, v_ring;
  device::RingPlace<C::kQStages> q_ring;
  const uint64_t stay = device::cache_policy<device::Keep::last>();
  WalkOf90<C> walk(p);
  [[maybe_unused]] ScheduleOf90<C> schedule(p, walk.steps(), blockIdx.x / C::kCluster,
                                            gridDim.x / C::kCluster);
  const auto load_k = [&](int step, const Place90& place) {
    flash90_load_tile<C>(k, maps.k[walk.range(step)], b.k_full(k_ring.index), b.k_empty(k_ring.index), k_ring,
                         walk.key(step), place, rank, stay);
  };
  const auto load_v = [&](int step, const Place90& place) {
    flash90_load_tile<C>(v, maps.v[walk.range(step)], b.v_full(v_ring.index), b.v_empty(v_ring.index), v_ring,
                         walk.key(step), place, rank, stay);
  };
  for (Segment90 s;;) {
    if constexpr (C::kHandsOut) {
      s = draw_ticket(p, walk);
    } else {
      if (!schedule.next(s)) break;
      if constexpr (C::kOwnSteps) walk.enter(s.unit), s.end = walk.steps();
      if (C::kPartial && s.end == 0) continue;
    }
    // There is nothing to load, but the others must learn about it.
    const bool empty = C::kHandsOut && s.begin == s.end;
    const Place90 place(p, empty ? 0 : s.unit, rank, C{});
    if (!empty) load_k(s.end - 1, place);
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      const uint32_t full = b.q_full(q_ring.index, group);
      device::barrier_wait(b.q_empty(q_ring.index, group), q_ring.parity ^ 1);
      if constexpr (C::kHandsOut) {
        handed->put(q_ring.index, group, s);
        if (empty) {
          device::barrier_arrive(full);
          continue;
        }
      }
      device::barrier_expect(full, C::kQBytes / 2);
#pragma unroll
      for (int half = 0; half < C::kHalves; ++half)
        device::tma_load(q + q_ring.index * C::kQBytes + half * (C::kRows * 128) + group * (64 * 128),
                         &maps.q, full, half * 64, place.row + group * 64, place.head, place.batch);
    }
    q_ring.next();
    if constexpr (C::kHandsOut) {
      if (s.unit < 0) break;
      if (empty) continue;
    }
    for (int step = s.end - 2; step >= s.begin; --step) load_k(step, place), load_v(step + 1, place);
    load_v(s.begin, place);
  }
}

// Reports that this warp has read a tile; one lane reports to each block that loads parts of it.
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

template <class C>
__device__ inline void flash90_compute(const Params90& p, uint32_t q_at, uint32_t k_at, uint32_t v_at,
                                       Barriers90<C> b, uint32_t rank,
                                       [[maybe_unused]] const Handed90<C>* handed) {
  // Tells the compiler that `group` is the same throughout the warp.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0) - 1;
  const uint32_t lane = threadIdx.x & 31;
  device::RingPlace<C::kStages> k_ring, v_ring;
  device::RingPlace<C::kQStages> q_ring;
  const auto k_tile = [&] { return device::uniform(device::k_major(k_at + k_ring.index * C::kTileBytes)); };
  const auto v_tile = [&] {
    return device::uniform(device::transposed<C::kKeys>(v_at + v_ring.index * C::kTileBytes));
  };
  if (group == 1) turn_give(0);
  WalkOf90<C> walk(p);
  [[maybe_unused]] ScheduleOf90<C> schedule(p, walk.steps(), blockIdx.x / C::kCluster,
                                            gridDim.x / C::kCluster);
  for (Segment90 seg;;) {
    if constexpr (C::kHandsOut) {
      device::barrier_wait(b.q_full(q_ring.index, group), q_ring.parity);
      seg = handed->get(q_ring.index, group);
      if (seg.unit < 0) break;
      walk.enter_list(seg.unit);
    } else {
      if (!schedule.next(seg)) break;
      if constexpr (C::kOwnSteps) walk.enter(seg.unit), seg.end = walk.steps();
    }
    if (C::kPartial && (C::kHandsOut ? seg.begin == seg.end : seg.end == 0)) {
      // The share of a piece without a step is never read.
      if (!C::kHandsOut || seg.share < 0)
        flash90_nothing<C>(p, seg, Place90(p, seg.unit, rank, C{}), rank, group);
      if constexpr (C::kHandsOut) {
        __syncwarp();
        if (lane == 0) device::barrier_arrive(b.q_empty(q_ring.index, group));
        q_ring.next();
      }
      continue;
    }
    float s[C::kKeys / 2], o[C::kDim / 2];
    uint32_t weights[C::kKeys / 4];
    Rows90 rows{};
    const auto mask = [&](float(&scores)[C::kKeys / 2], int step, [[maybe_unused]] int listed_keys) {
      if constexpr (C::kMasks) {
        const Place90 place(p, seg.unit, rank, C{});
        mask_rows<C>(scores, walk, p, step, place.batch, place.row + group * 64);
      } else if (const int keys = C::kLists ? listed_keys : walk.present(step); keys < C::kKeys) {
        mask_end<C>(scores, keys);
      }
    };
    const auto q = device::uniform(device::k_major(q_at + q_ring.index * C::kQBytes + group * (64 * 128)));
    [[maybe_unused]] int listed = 0;  // keys of a step, read early because of memory's latency
    if constexpr (C::kLists) listed = walk.present(seg.end - 1);
    if constexpr (!C::kHandsOut) device::barrier_wait(b.q_full(q_ring.index, group), q_ring.parity);
    device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
    flash90_scores<C>(s, q, k_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(s);
    flash90_release<C>(b.k_empty(k_ring.index), lane);
    k_ring.next();
    mask(s, seg.end - 1, listed);
    if constexpr (!C::kBare) row_max(s, rows.most);
    exponentials<C>(s, rows, p.scale_log2);
    pack_weights<C>(weights, s);
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) o[i] = 0;

    for (int step = seg.end - 2; step >= seg.begin; --step) {
      const auto k = k_tile(), v = v_tile();
      if constexpr (C::kLists) listed = walk.present(step);
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
      if constexpr (C::kPartial) mask(s, step, listed);
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
      exponentials<C>(s, rows, p.scale_log2);
      // Makes `rare` the same throughout a warp, because the following steps need whole warps.
      if constexpr (!C::kTracks) rare = __any_sync(~0u, !(rows.sum[0] + rows.sum[1] < C::kRoom));
      // There are two waits, so that they stay behind a branch on the exponentials: the assembler would move
      // a single wait in front of them, and nothing would run in parallel with the product.
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
    if (lane == 0) device::barrier_arrive(b.q_empty(q_ring.index, group));
    q_ring.next();
    device::barrier_wait(b.v_full(v_ring.index), v_ring.parity);
    flash90_sum_up<C>(o, weights, v_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(o);
    flash90_release<C>(b.v_empty(v_ring.index), lane);
    v_ring.next();
    flash90_finish<C>(p, seg, Place90(p, seg.unit, rank, C{}), rank, group, o, rows);
  }
}

// Whether this cluster has a unit to compute again. Called by all threads of a block; the result is the same
// in all blocks of a cluster.
template <class C>
__device__ inline bool flash90_repairs(const Params90& p) {
  // If units are distributed in another way (MaskSchedule90), any cluster's units count.
  const int cluster = C::kMasks ? 0 : blockIdx.x / C::kCluster,
            clusters = C::kMasks ? 1 : gridDim.x / C::kCluster;
  bool any = false;
  for (int64_t unit = cluster + int64_t{threadIdx.x} * clusters; unit < p.whole_units;
       unit += 384 * int64_t{clusters}) {
    if (!outgrown<C>(p, static_cast<int>(unit))) continue;
    any = true;  // every unit is checked by one thread of each block of its cluster
    if (p.again && blockIdx.x % C::kCluster == 0) atomicAdd(p.again, C::kUnitRows / 16ull);
  }
  return __syncthreads_or(any);
}

template <class C>
__global__ void __launch_bounds__(384, 1)
    flash90_kernel(const __grid_constant__ Maps90<C> maps, const __grid_constant__ Params90 p) {
  if constexpr (C::kRepair) {
    device::wait_for_previous_kernel();
    if (!flash90_repairs<C>(p)) return;
  }
  extern __shared__ char shared[];
  __shared__ uint64_t barriers[Barriers90<C>::kCount];
  Handed90<C>* handed = nullptr;
  if constexpr (C::kHandsOut) {
    __shared__ Handed90<C> places;
    handed = &places;
  }
  // The swizzle depends on address bits, so tiles begin at multiples of its period (the same in
  // all blocks of a cluster).
  uint32_t q = (device::shared_address(shared) + 1023) & ~1023u;
  Barriers90<C> b{device::shared_address(barriers)};
  // Keeps these addresses in registers, instead of computing them again at each use.
  asm volatile("" : "+r"(q), "+r"(b.base));
  const uint32_t k = q + C::kQStages * C::kQBytes, v = k + C::kStages * C::kTileBytes;
  const uint32_t rank = C::kCluster > 1 ? device::cluster_rank() : 0;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    constexpr int kWarps = 8;
    for (int i = 0; i < 2 * C::kQStages; ++i)
      device::barrier_init(b.q_full(i / 2, i % 2), 1),
          device::barrier_init(b.q_empty(i / 2, i % 2), kWarps / 2);
    for (int i = 0; i < C::kStages; ++i) {
      device::barrier_init(b.k_full(i), 1), device::barrier_init(b.v_full(i), 1);
      device::barrier_init(b.k_empty(i), kWarps * C::kCluster),
          device::barrier_init(b.v_empty(i), kWarps * C::kCluster);
    }
    device::barrier_init_fence();
    device::tma_prefetch(&maps.q), device::tma_prefetch(&maps.k[0]), device::tma_prefetch(&maps.v[0]);
  }
  if constexpr (C::kCluster > 1)
    device::cluster_sync();
  else
    __syncthreads();
  if constexpr (!C::kRepair) device::wait_for_previous_kernel();
  if (warp < 4) {
    device::give_registers<C::kLoaderRegisters>();
    if (warp == 0 && threadIdx.x % 32 == 0) flash90_load<C>(p, maps, q, k, v, b, rank, handed);
  } else {
    device::take_registers<C::kRegisters>();
    flash90_compute<C>(p, q, k, v, b, rank, handed);
  }
  // No block may exit while another may still arrive at its barriers or load into it.
  __syncwarp();
  if constexpr (C::kCluster > 1) device::cluster_sync();
}

}  // namespace tachy::ops::flash
