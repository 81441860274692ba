// Flash attention on Hopper over lists of key blocks that are cut to at most 64 tokens, by specialised warps:
// out = softmax(q·kᵀ·scale)·v.
//
//   block      two halves of up to 64 queries of one head, each of which has a warpgroup, and a third warpgroup whose
//              first thread loads
//   step       two key blocks, in tiles of 64 rows (flash_cut_steps.cuh): s [64, 128] = q·kᵀ and its softmax p stay in
//              registers; o [64, D] += p·v. Rows of a tile past the block's end are masked, and so are tiles that
//              this half does not list. Of small blocks only 32 or 16 rows are loaded, because the way through the
//              second-level cache is the limit. What lies behind them is from earlier blocks, or zeros.
//
//   loader     Q  K0  K1 V0  K2 V1 … Vn       rings of kStages steps of k and of v, full/empty barriers
//   warpgroup  for each step: waits for k; issues s; issues o += p·v of its step before; computes the softmax while
//              p·v runs. It goes past a step that it does not list, and releases its tiles.
//
// A warpgroup keeps v of its step before until it has issued the next one's product. It does so past one step that it
// does not list; before a second one it finishes the product. So the loader, which fills the rings in the order of
// steps, can always go on: the last kStages tiles of v never all wait for a k behind them.
//
// The softmax is in powers of two. The largest score so far is subtracted; if a row outgrows it by 2^8, o and the row's
// sum are scaled.
#pragma once

#include "device/ring.cuh"
#include "ops/attention/flash_cut_steps.cuh"
#include "ops/attention/flash_sm90.cuh"

namespace tachy::ops::flash {

struct CutParams90 {
  void* out;
  int64_t out_batch, out_row, out_head;
  float* lse;  // may be null
  int64_t lse_batch, lse_head;
  int lq, d, query_blocks, most;
  bool pairs;  // a unit is two blocks of queries, each with a list of its own
  const int32_t* query_ends;
  const uint2* steps;
  const int32_t* counts;
  float scale_log2;
};

template <class T_, int kDim_>
struct CutTile90 {
  using T = T_;
  static constexpr bool kBare = false, kBiases = false, kMasks = false;
  static constexpr int kDim = kDim_, kKeys = 2 * kCutTokens, kCluster = 1, kStages = 3, kRows = 128;
  static constexpr int kHalves = kDim / 64;
  static constexpr int kQBytes = kRows * kDim * 2, kTileBytes = kKeys * kDim * 2;
  static constexpr int kSharedBytes = 1024 + kQBytes + 2 * kStages * kTileBytes;
  static constexpr int kBarriers = 2 + 4 * kStages;
};

// Boxes of 64 columns: of 64 queries, and of 64, 32 and 16 keys.
constexpr int kCutMaps = 3;
struct CutMaps90 {
  CUtensorMap q, k[kCutMaps], v[kCutMaps];
};

struct CutBarriers {
  uint32_t base;
  __device__ uint32_t q(int half) const { return base + 8 * half; }
  __device__ uint32_t k_full(int i) const { return base + 16 + 32 * i; }
  __device__ uint32_t k_empty(int i) const { return k_full(i) + 8; }
  __device__ uint32_t v_full(int i) const { return k_full(i) + 16; }
  __device__ uint32_t v_empty(int i) const { return k_full(i) + 24; }
};

// The queries of a half of a unit.
__device__ __forceinline__ Span cut_queries(const CutParams90& p, int unit, int half) {
  if (p.pairs) {
    const int block = 2 * unit + half;
    return block < p.query_blocks ? span_of(p.query_ends, block, p.lq, kCutTokens) : Span{p.lq, p.lq};
  }
  const int first = min(p.lq, (2 * unit + half) * kCutTokens);
  return {first, min(p.lq, first + kCutTokens)};
}

template <class C>
__device__ inline void cuts90_load(const CutParams90& p, const CutMaps90& maps, uint32_t q, uint32_t k,
                                   uint32_t v, CutBarriers b, const uint2* steps, int count) {
  const int head = blockIdx.y, batch = blockIdx.z;
  if (count == 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Span rows = cut_queries(p, blockIdx.x, half);
    if (rows.first >= rows.end) continue;
    device::barrier_expect(b.q(half), C::kQBytes / 2);
#pragma unroll
    for (int columns = 0; columns < C::kHalves; ++columns)
      device::tma_load(q + columns * (C::kRows * 128) + half * (kCutTokens * 128), &maps.q, b.q(half),
                       columns * 64, rows.first, head, batch);
  }
  const auto load = [&](uint32_t to, const CUtensorMap* map, uint32_t full, uint32_t empty,
                        device::RingPlace<C::kStages>& ring, uint2 step) {
    const CutTile tiles[2] = {{step.x}, {step.y}};
    device::barrier_wait(empty, ring.parity ^ 1);
    device::barrier_expect(full, (tiles[0].rows() + tiles[1].rows()) * (C::kDim * 2));
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int columns = 0; columns < C::kHalves; ++columns)
        device::tma_load(
            to + ring.index * C::kTileBytes + columns * (C::kKeys * 128) + tile * (kCutTokens * 128),
            map + tiles[tile].size(), full, columns * 64, tiles[tile].first(), head, batch);
    ring.next();
  };
  device::RingPlace<C::kStages> k_ring, v_ring;
  uint2 now = __ldg(steps), next = count > 1 ? __ldg(steps + 1) : now;
  load(k, maps.k, b.k_full(k_ring.index), b.k_empty(k_ring.index), k_ring, now);
  for (int i = 1; i < count; ++i) {
    const uint2 before = now;
    now = next;
    if (i + 1 < count) next = __ldg(steps + i + 1);
    load(k, maps.k, b.k_full(k_ring.index), b.k_empty(k_ring.index), k_ring, now);
    load(v, maps.v, b.v_full(v_ring.index), b.v_empty(v_ring.index), v_ring, before);
  }
  load(v, maps.v, b.v_full(v_ring.index), b.v_empty(v_ring.index), v_ring, now);
}

// Masks the keys of each tile from `keys` on.
template <class C>
__device__ __forceinline__ void mask_tiles(float (&s)[C::kKeys / 2], const int (&keys)[2]) {
  const int column = (threadIdx.x & 3) * 2;
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    if (keys[tile] == kCutTokens) continue;
#pragma unroll
    for (int g = 0; g < kCutTokens / 8; ++g)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (g * 8 + column + k % 2 >= keys[tile]) s[(tile * (kCutTokens / 8) + g) * 4 + k] = -INFINITY;
  }
}

// Writes a half's rows.
template <class C>
__device__ inline void cuts90_finish(const CutParams90& p, Span queries, float (&o)[C::kDim / 2],
                                     Rows90& rows) {
  using T = typename C::T;
  const int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31, quad = lane & 3;
  const int head = blockIdx.y, batch = blockIdx.z;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(~0u, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(~0u, rows.sum[r], 2);
    const int row = queries.first + warp * 16 + r * 8 + lane / 4;
    const bool there = row < queries.end;
    if (p.lse && quad == 0 && there)
      p.lse[batch * p.lse_batch + head * p.lse_head + row] =
          (rows.most[r] * p.scale_log2 + __log2f(rows.sum[r])) * 0.69314718055994530942f;
    const float inverse = rows.sum[r] > 0 ? 1.0f / rows.sum[r] : rows.sum[r] == 0 ? 0.0f : NAN;
    T* to = static_cast<T*>(p.out) + batch * p.out_batch + row * p.out_row + head * p.out_head;
#pragma unroll
    for (int g0 = 0; g0 < C::kDim / 8; g0 += 4) {
      uint32_t v[4];
#pragma unroll
      for (int g = 0; g < 4; ++g)
        v[g] = device::pack2(o[(g0 + g) * 4 + 2 * r] * inverse, o[(g0 + g) * 4 + 2 * r + 1] * inverse, T{});
      device::transpose_quad(v);
      const int at = (g0 + quad) * 8;
      if (there && at < p.d) *reinterpret_cast<uint4*>(to + at) = make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
}

template <class C>
__device__ inline void cuts90_compute(const CutParams90& p, uint32_t q_at, uint32_t k_at, uint32_t v_at,
                                      CutBarriers b, const uint2* steps, int count) {
  // Tells the compiler that `half` is the same throughout the warp.
  const int half = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0) - 1;
  const uint32_t lane = threadIdx.x & 31;
  const Span queries = cut_queries(p, blockIdx.x, half);
  const bool there = queries.first < queries.end;
  float s[C::kKeys / 2], o[C::kDim / 2];
  uint32_t weights[C::kKeys / 4];
  Rows90 rows{{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
  for (int i = 0; i < C::kDim / 2; ++i) o[i] = 0;
  const auto q = device::uniform(device::k_major(q_at + half * (kCutTokens * 128)));
  const auto k_tile = [&](int i) { return device::uniform(device::k_major(k_at + i * C::kTileBytes)); };
  const auto v_tile = [&](int i) {
    return device::uniform(device::transposed<C::kKeys>(v_at + i * C::kTileBytes));
  };

  device::RingPlace<C::kStages> ring, held;  // k's and v's of this step, and v's of the step that is held
  int held_step = -1;                        // whose weights are not yet multiplied by v; -1 for none
  // Turns scores into weights. Returns by what o must be multiplied.
  const auto softmax = [&](const int(&keys)[2], float(&factor)[2]) {
    mask_tiles<C>(s, keys);
    float most[2];
    row_max(s, most);
    bool rare = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float grows = (most[r] - rows.most[r]) * p.scale_log2;
      factor[r] = 1;
      if (grows > 8.0f) factor[r] = device::exp2_approx(-grows), rows.most[r] = most[r], rare = true;
    }
    rare = __any_sync(~0u, rare);
    if (rare) rows.sum[0] *= factor[0], rows.sum[1] *= factor[1];
    exponentials<C>(s, rows, p.scale_log2);
    return rare;
  };
  const auto scale = [&](const float(&factor)[2]) {
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) o[i] *= factor[i / 2 % 2];
  };
  // Finishes the product of the step that is held.
  const auto settle = [&] {
    device::barrier_wait(b.v_full(held.index), held.parity);
    flash90_sum_up<C>(o, weights, v_tile(held.index));
    device::wgmma_wait<0>();
    device::wgmma_touch(o);
    device::wgmma_touch(weights);
    flash90_release<C>(b.v_empty(held.index), lane);
    held_step = -1;
  };

  if (there && count > 0) device::barrier_wait(b.q(half), 0);
  uint2 next = count > 0 ? __ldg(steps) : make_uint2(0, 0);
  for (int i = 0; i < count; ++i, ring.next()) {
    const CutTile tiles[2] = {{next.x}, {next.y}};
    if (i + 1 < count) next = __ldg(steps + i + 1);
    const int keys[2] = {tiles[0].keys(half), tiles[1].keys(half)};
    if (!there || keys[0] + keys[1] == 0) {
      if (held_step >= 0 && i - held_step > 1) settle();
      device::barrier_wait(b.k_full(ring.index), ring.parity);
      device::barrier_wait(b.v_full(ring.index), ring.parity);
      __syncwarp();  // no lane may still wait for a round when the next one begins
      flash90_release<C>(b.k_empty(ring.index), lane);
      flash90_release<C>(b.v_empty(ring.index), lane);
      continue;
    }
    float factor[2];
    const auto k = k_tile(ring.index);
    device::barrier_wait(b.k_full(ring.index), ring.parity);
    if (held_step >= 0) {
      const auto v = v_tile(held.index);
      flash90_scores<C>(s, q, k);
      device::barrier_wait(b.v_full(held.index), held.parity);
      flash90_sum_up<C>(o, weights, v);
      device::wgmma_wait<1>();
      device::wgmma_touch(s);
      flash90_release<C>(b.k_empty(ring.index), lane);
      const bool rare = softmax(keys, factor);
      // There are two waits, so that they stay behind the exponentials (flash_sm90.cuh).
      if (rare) {
        asm volatile("wgmma.wait_group.sync.aligned 0; // rare\n" ::: "memory");
        device::wgmma_touch(o);
        scale(factor);
      } else {
        device::wgmma_wait<0>();
        device::wgmma_touch(o);
      }
      device::wgmma_touch(weights);
      flash90_release<C>(b.v_empty(held.index), lane);
    } else {
      flash90_scores<C>(s, q, k);
      device::wgmma_wait<0>();
      device::wgmma_touch(s);
      flash90_release<C>(b.k_empty(ring.index), lane);
      if (softmax(keys, factor)) scale(factor);
    }
    pack_weights<C>(weights, s);
    held = ring, held_step = i;
  }
  if (held_step >= 0) settle();
  if (there) cuts90_finish<C>(p, queries, o, rows);
}

// Grid: (units of a head, heads, batch).
template <class C>
__global__ void __launch_bounds__(384, 1)
    cuts90_kernel(const __grid_constant__ CutMaps90 maps, const __grid_constant__ CutParams90 p) {
  extern __shared__ char shared[];
  __shared__ uint64_t barriers[C::kBarriers];
  // The swizzle depends on address bits, so tiles begin at multiples of its period.
  const uint32_t q = (device::shared_address(shared) + 1023) & ~1023u;
  const uint32_t k = q + C::kQBytes, v = k + C::kStages * C::kTileBytes;
  const CutBarriers b{device::shared_address(barriers)};
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    constexpr int kWarps = 8;
    device::barrier_init(b.q(0), 1), device::barrier_init(b.q(1), 1);
    for (int i = 0; i < C::kStages; ++i) {
      device::barrier_init(b.k_full(i), 1), device::barrier_init(b.v_full(i), 1);
      device::barrier_init(b.k_empty(i), kWarps), device::barrier_init(b.v_empty(i), kWarps);
    }
    device::barrier_init_fence();
    device::tma_prefetch(&maps.q), device::tma_prefetch(&maps.k[0]), device::tma_prefetch(&maps.v[0]);
  }
  // Weights of keys that are not there are 0, which only finite values leave so.
  for (uint32_t at = threadIdx.x * 16; at < C::kStages * C::kTileBytes; at += 384 * 16)
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(v + at), "r"(0) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const int64_t place = (int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const uint2* steps = p.steps + place * p.most;
  const int count = p.counts[place];
  if (warp < 4) {
    device::give_registers<40>();
    if (warp == 0 && threadIdx.x % 32 == 0) cuts90_load<C>(p, maps, q, k, v, b, steps, count);
  } else {
    device::take_registers<232>();
    cuts90_compute<C>(p, q, k, v, b, steps, count);
  }
}

}  // namespace tachy::ops::flash
