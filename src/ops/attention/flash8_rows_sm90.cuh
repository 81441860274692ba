// The computing warpgroups of flash8_sm90.cuh, and its kernel.
#pragma once

#include "ops/attention/flash8_sm90.cuh"

namespace tachy::ops::flash {

// Does a unit's first step, in which the keys may end: turns s into weights and scales each row so that its
// largest weight is 2^kLargest8.
__device__ __forceinline__ void begin_rows8(uint32_t (&s)[64], float (&e)[64], Rows8& rows, float k_scale,
                                            int present) {
  const int column = (threadIdx.x & 3) * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int most = -(1 << 22);
#pragma unroll
    for (int i = 2 * r; i < 64; i += i % 2 ? 3 : 1)
      if (i / 4 * 8 + column + i % 2 < present) most = max(most, static_cast<int>(s[i]));
    most = max(most, __shfl_xor_sync(~0u, most, 1));
    most = max(most, __shfl_xor_sync(~0u, most, 2));
    rows.minus[r] = kLargest8 - static_cast<float>(most) * rows.q_scale[r] * k_scale;
    rows.total[r] = 0;
  }
  soften8(s, e, rows, k_scale);
  if (present >= Tile8::kKeys) return;
#pragma unroll
  for (int i = 0; i < 64; ++i)
    if (i / 4 * 8 + column + i % 2 >= present) e[i] = 0;
}

// Whether a row of this warp has a weight that e4m3 cannot hold: 448 and NaN are 0x7e and 0x7f.
__device__ __forceinline__ bool beyond8(const uint32_t (&w)[16]) {
  uint32_t any = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) any |= w[i] + 0x02020202u;
  return __any_sync(~0u, any & 0x80808080u);
}

// Rescales rows with such a weight: the weights of this step, and the totals of the steps before.
__device__ __forceinline__ void follow8(float (&e)[64], Rows8& rows, float (&total)[64]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = 0;
#pragma unroll
    for (int i = 2 * r; i < 64; i += i % 2 ? 3 : 1) most = fmaxf(most, e[i]);
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const float moves = most > kHighest8 ? kLargest8 - log2f(most) : 0.0f;
    const float factor = device::exp2_approx(moves);
    rows.minus[r] += moves, rows.total[r] *= factor;
#pragma unroll
    for (int i = 2 * r; i < 64; i += i % 2 ? 3 : 1) e[i] *= factor, total[i] *= factor;
  }
}

// Whether a thread's rows must be computed again.
__device__ __forceinline__ bool bad_rows8(const Head8& about, const Rows8& rows) {
  const float coarsest = __uint_as_float(about.k_coarsest);
  return about.broken || !(fmaxf(rows.q_scale[0], rows.q_scale[1]) * coarsest <= kCoarsest) ||
         !(rows.total[0] > 0 && rows.total[0] < INFINITY) || !(rows.total[1] > 0 && rows.total[1] < INFINITY);
}

// Writes a share's sums as they are, or a unit's divided sums to out, and notes whether the unit must be
// computed again. In that case a share's sum of weights is NaN, which the merging kernel notes.
__device__ inline void flash8_finish(const Params8& p, const Segment90& s, uint32_t rank, int group,
                                     float (&total)[64], const Rows8& rows) {
  using C = Tile8;
  const Params90& to = p.to;
  const int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31, quad = lane & 3;
  const int bh = s.unit / to.units_per_head;
  const Place90 place(to, s.unit, rank, C{});
  const bool bad = __any_sync(~0u, bad_rows8(p.about[bh], rows));
  if (s.share < 0 && lane == 0)
    *reinterpret_cast<uint16_t*>(to.outgrown + int64_t{s.unit} * C::kNotes +
                                 (rank * 8 + group * 4 + warp) * 2) = bad;
  const float* v_scales = p.v_scales + bh * 128 + quad * 2;
#pragma unroll
  for (int g = 0; g < 16; ++g) {
    const float2 scale = *reinterpret_cast<const float2*>(v_scales + g * 8);
    total[4 * g] *= scale.x, total[4 * g + 1] *= scale.y, total[4 * g + 2] *= scale.x,
        total[4 * g + 3] *= scale.y;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_block = group * 64 + warp * 16 + r * 8 + lane / 4, row = place.row + in_block;
    const float most = (to.lse && row < to.lq ? p.q_offsets[int64_t{bh} * to.lq + row] : 0) - rows.minus[r];
    if (s.share >= 0) {
      const int64_t at = (int64_t{s.share} * C::kCluster + rank) * C::kRows + in_block;
      if (quad == 0) to.share_sums[at] = make_float2(most, bad ? NAN : rows.total[r]);
      float* sums = to.shares + at * C::kDim + quad * 2;
#pragma unroll
      for (int g = 0; g < 16; ++g)
        *reinterpret_cast<float2*>(sums + g * 8) =
            make_float2(total[g * 4 + 2 * r], total[g * 4 + 2 * r + 1]);
      continue;
    }
    if (row >= to.lq) continue;
    if (to.lse && quad == 0)
      to.lse[place.batch * to.lse_batch + place.head * to.lse_head + row] =
          (most + __log2f(rows.total[r])) * 0.69314718055994530942f;
    const float inverse = 1 / rows.total[r];
    auto* out = static_cast<__nv_bfloat16*>(to.out) + place.batch * to.out_batch + row * to.out_row +
                place.head * to.out_head + quad * 2;
#pragma unroll
    for (int g = 0; g < 16; ++g)
      if (g * 8 < to.d)
        *reinterpret_cast<__nv_bfloat162*>(out + g * 8) =
            __floats2bfloat162_rn(total[g * 4 + 2 * r] * inverse, total[g * 4 + 2 * r + 1] * inverse);
  }
}

__device__ inline void flash8_compute(const Params8& p, uint32_t q_at, uint32_t k_at, uint32_t v_at,
                                      Barriers8 b, uint32_t rank) {
  using C = Tile8;
  // Tells the compiler that `group` is the same throughout the warp.
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0) - 1;
  const uint32_t lane = threadIdx.x & 31;
  // v's tiles are one step behind k's, and there are two tiles of q, so their places follow from k's place
  // and the unit's index.
  device::RingPlace<C::kStages> k_ring;
  const auto v_place = [&](int behind) { return (k_ring.index + C::kStages - behind) % C::kStages; };
  const auto k_tile = [&] { return device::uniform(device::k_major(k_at + k_ring.index * C::kKBytes)); };
  const auto v_tile = [&] { return device::uniform(device::k_major(v_at + v_place(1) * C::kVBytes)); };
  Segment90 seg;
  for (int index = 0; segment8(p.to, p.steps, index, seg); ++index) {
    uint32_t s[64], w[16];
    float e[64], o[device::kWeightSums], total[64];
    Rows8 rows;
    const int bh = seg.unit / p.to.units_per_head;
    const int first = Place90(p.to, seg.unit, rank, C{}).row + group * 64 + (threadIdx.x / 32 & 3) * 16 +
                      static_cast<int>(lane) / 4;
    const float *q_scales = p.q_scales + int64_t{bh} * p.to.lq, *k_scales = p.k_scales + bh * p.steps;
#pragma unroll
    for (int r = 0; r < 2; ++r) rows.q_scale[r] = q_scales[min(first + r * 8, p.to.lq - 1)];
    float k_scale = k_scales[seg.end - 1];
    const auto q = device::uniform(device::k_major(q_at + index % 2 * C::kQBytes + group * (C::kQBytes / 2)));
    device::barrier_wait(b.q_full(index % 2, group), index / 2 % 2);
    device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
    flash8_scores(s, q, k_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(s);
    flash90_release<C>(b.k_empty(k_ring.index), lane);
    k_ring.next();
    begin_rows8(s, e, rows, k_scale, p.to.lk - (seg.end - 1) * C::kKeys);
    pack8(w, e);
#pragma unroll
    for (int i = 0; i < 64; ++i) total[i] = 0;
    for (int step = seg.end - 2; step >= seg.begin; --step) {
      const auto k = k_tile(), v = v_tile();
      k_scale = __ldg(k_scales + step);
      device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
      flash8_scores(s, q, k);
      device::barrier_wait(b.v_full(v_place(1)), k_ring.parity ^ (k_ring.index == 0));
      flash8_sum_up(o, w, v);
      device::wgmma_wait<1>();
      device::wgmma_touch(s);
      flash90_release<C>(b.k_empty(k_ring.index), lane);
      k_ring.next();
      soften8<0, kEarly8>(s, e, rows, k_scale);
      // There are two waits, so that they stay behind a branch on the first weights (flash_sm90.cuh); the
      // other weights are computed afterwards, together with the additions to the totals.
      if (__any_sync(~0u, !(e[kEarly8 - 1] < INFINITY)))
        asm volatile("wgmma.wait_group.sync.aligned 0; // rare\n" ::: "memory");
      else
        device::wgmma_wait<0>();
      device::wgmma_touch(o);
      device::wgmma_touch(w);
      flash90_release<C>(b.v_empty(v_place(2)), lane);
      soften8<kEarly8, 64>(s, e, rows, k_scale);
#pragma unroll
      for (int i = 0; i < 64; ++i) total[i] += o[i];
      rows.total[0] += o[64], rows.total[1] += o[66];
      pack8(w, e);
      if (beyond8(w)) follow8(e, rows, total), pack8(w, e);
    }
    if (lane == 0) device::barrier_arrive(b.q_empty(index % 2, group));
    device::barrier_wait(b.v_full(v_place(1)), k_ring.parity ^ (k_ring.index == 0));
    flash8_sum_up(o, w, v_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(o);
    flash90_release<C>(b.v_empty(v_place(1)), lane);
#pragma unroll
    for (int i = 0; i < 64; ++i) total[i] += o[i];
    rows.total[0] += o[64], rows.total[1] += o[66];
    segment8(p.to, p.steps, index, seg);  // computed again, so that it takes no registers until here
    flash8_finish(p, seg, rank, group, total, rows);
  }
}

__global__ void __launch_bounds__(384, 1)
    flash8_kernel(const __grid_constant__ Maps8 maps, const __grid_constant__ Params8 p) {
  using C = Tile8;
  extern __shared__ char shared[];
  __shared__ uint64_t barriers[Barriers8::kCount];
  char* base = shared + ((1024 - (device::shared_address(shared) & 1023)) & 1023);
  uint32_t q = device::shared_address(base);
  Barriers8 b{device::shared_address(barriers)};
  // Keeps these addresses in registers, instead of computing them again at each use.
  asm volatile("" : "+r"(q), "+r"(b.base));
  const uint32_t v = q + 2 * C::kQBytes, k = v + C::kStages * C::kVBytes;
  const uint32_t rank = device::cluster_rank();
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  for (int i = threadIdx.x; i < C::kStages * 256; i += 384)  // ones in e4m3
    *reinterpret_cast<uint32_t*>(base + 2 * C::kQBytes + i / 256 * C::kVBytes + C::kVLoaded + i % 256 * 4) =
        0x38383838u;
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0)
      atomicAdd(p.asked,
                static_cast<unsigned long long>(p.to.whole_units + p.to.cut_units) * (C::kUnitRows / 16));
    for (int i = 0; i < 4; ++i)
      device::barrier_init(b.q_full(i / 2, i % 2), 1), device::barrier_init(b.q_empty(i / 2, i % 2), 4);
    for (int i = 0; i < C::kStages; ++i) {
      device::barrier_init(b.k_full(i), 1), device::barrier_init(b.v_full(i), 1);
      device::barrier_init(b.k_empty(i), 8 * C::kCluster),
          device::barrier_init(b.v_empty(i), 8 * C::kCluster);
    }
    device::barrier_init_fence();
    device::tma_prefetch(&maps.q), device::tma_prefetch(&maps.k), device::tma_prefetch(&maps.v);
  }
  device::cluster_sync();
  if (warp < 4) {
    device::give_registers<C::kLoaderRegisters>();
    if (warp == 0 && threadIdx.x % 32 == 0) flash8_load(p, maps, q, k, v, b, rank);
  } else {
    device::take_registers<C::kRegisters>();
    flash8_compute(p, q, k, v, b, rank);
  }
  // No block may exit while another may still arrive at its barriers or load into it.
  __syncwarp();
  device::cluster_sync();
}

}  // namespace tachy::ops::flash
