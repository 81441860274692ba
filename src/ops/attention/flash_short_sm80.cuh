// Flash attention of some hundred keys in bf16, such as a prompt's, for GPUs since sm_80 with 140 KiB of shared memory:
// out = softmax(q·kᵀ)·v without masks or biases. With so few keys flash_long_sm80.cuh spends a fifth of its time
// waiting for a block's queries and for its first keys, and writing its result. Here a block stays and takes one tile of
// 256 queries after the other: while it multiplies, the next tile's queries and first keys are on their way. A warp
// fetches its own 32 queries into a place of its own. The result goes from registers to memory, by shuffles within
// quads, since no shared memory is free for it.
//
// What a row subtracts, and what becomes of rows that outgrow it, is that of flash_long_sm80.cuh, whose steps these are.
#pragma once

#include "ops/attention/flash_long_sm80.cuh"

namespace tachy::ops::flash {

struct ShortTile : LongTile<64> {
  static constexpr uint32_t kQueriesAt = kStagesEnd;
  static constexpr size_t kSharedBytes = kQueriesAt + kRows * kKPitch;
};

// A tile: which head and which queries.
struct ShortPlace {
  int bh, first;
  __device__ __forceinline__ ShortPlace(int item, int tiles)
      : bh(item / tiles), first(item % tiles * ShortTile::kRows) {}
};

// Begins to copy a warp's queries to their place; those beyond the last one, and channels beyond the end, become zeros.
__device__ __forceinline__ void fetch_queries(const ByteParams& p, const ShortPlace& place, uint32_t to) {
  const Params& op = p.to;
  const int lane = threadIdx.x & 31, column = lane % 16 * 8;
  const int row = place.first + static_cast<int>(threadIdx.x / 32) * 32 + lane / 16;
  const auto* q = static_cast<const __nv_bfloat16*>(op.q) + place.bh / p.heads * op.qs.batch +
                  place.bh % p.heads * op.qs.head;
  to += lane / 16 * ShortTile::kKPitch + column * 2;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const bool present = column < op.d && row + 2 * i < op.lq;
    device::copy_async(to + i * 2 * ShortTile::kKPitch, present ? q + (row + 2 * i) * op.qs.row + column : q,
                       present);
  }
}

// Lane t of a quad has words of four packs; afterwards it has pack t, whole.
__device__ __forceinline__ void turn_quad(uint32_t (&u)[4]) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int step = 1; step < 4; step *= 2)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = step == 1 ? 2 * i : i, high = low + step;
      const bool upper = (t & step) != 0;
      const uint32_t got = __shfl_xor_sync(~0u, upper ? u[low] : u[high], step);
      u[low] = upper ? got : u[low], u[high] = upper ? u[high] : got;
    }
}

// Divides and writes the result, and notes whether the warp's rows must be computed again.
__device__ __forceinline__ void finish_short(const LongWarp<ShortTile>& work, const ByteParams& p,
                                             const ShortPlace& place, int item) {
  const Params& op = p.to;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  auto* out = static_cast<__nv_bfloat16*>(op.out) + place.bh / p.heads * op.os.batch +
              place.bh % p.heads * op.os.head;
  bool bad = false;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = place.first + warp * 32 + (lane >> 2) + 8 * r;
    const float sum = work.ones[r >> 1][(r & 1) * 2], inverse = 1 / sum;
    bad |= !(sum > ShortTile::kLeastSum && sum < ShortTile::kMostSum);
#pragma unroll
    for (int four = 0; four < 4; ++four) {
      uint32_t u[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* o = &work.o[r >> 1][four * 4 + j][(r & 1) * 2];
        u[j] = device::pack_pair<__nv_bfloat16>(o[0] * inverse, o[1] * inverse);
      }
      turn_quad(u);
      const int column = (four * 4 + (lane & 3)) * 8;
      if (row < op.lq && column < op.d)
        *reinterpret_cast<uint4*>(out + row * op.os.row + column) = make_uint4(u[0], u[1], u[2], u[3]);
    }
  }
  bad = __any_sync(~0u, bad);
  if (lane == 0) p.bad[int64_t{item} * ShortTile::kWarps + warp] = bad;
}

// A block takes an equal share of the tiles of all heads, `tiles` of each.
__global__ void __launch_bounds__(ShortTile::kThreads, 1)
    short_attention_kernel(const ByteParams p, float factor, int tiles, int items) {
  using C = ShortTile;
  using T = __nv_bfloat16;
  extern __shared__ __align__(1024) char shared[];
  const Params& op = p.to;
  const int end_bytes = op.d * 2, stages = (op.lk + C::kKeys - 1) / C::kKeys;
  int item = static_cast<int>(int64_t{items} * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(int64_t{items} * (blockIdx.x + 1) / gridDim.x);
  if (item >= end) return;
  const BytePlaces<C> at(device::shared_address(shared));
  const uint32_t mine = at.base + C::kQueriesAt + threadIdx.x / 32 * 32 * C::kKPitch;
  const auto k_of = [&](int bh) {
    return static_cast<const T*>(op.k) + bh / p.heads * op.ks.batch + bh % p.heads * op.ks.head;
  };
  const auto v_of = [&](int bh) {
    return static_cast<const T*>(op.v) + bh / p.heads * op.vs.batch + bh % p.heads * op.vs.head;
  };
  // The last keys, where they may end, come first.
  const auto fetch_last_keys = [&](int bh, uint32_t slot) {
    load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base + slot, k_of(bh), op.ks.row * 2,
                                                   (stages - 1) * C::kKeys, op.lk, end_bytes);
    load_padded<C, C::kVRow, C::kVPitch, C::kKeys>(at.base + C::kVAt + slot, v_of(bh), op.vs.row * 2,
                                                   (stages - 1) * C::kKeys, op.lk, end_bytes);
  };
  StageCopies<C> copies(k_of(item / tiles), op.ks.row * 2, v_of(item / tiles), op.vs.row * 2, end_bytes,
                        at.base);
  fetch_queries(p, ShortPlace(item, tiles), mine);
  fetch_last_keys(item / tiles, 0);
  device::commit_copies();
  uint32_t now = 0;
  LongWarp<C> work;
#pragma unroll 1
  for (; item < end; ++item) {
    device::wait_copies<0>();
    __syncthreads();
    {
      const int lane = threadIdx.x & 31;
      const uint32_t from = mine + (lane & 15) * C::kKPitch + (lane >> 4) * 16;
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int c = 0; c < C::kDim / 16; ++c)
          device::load_tiles(work.q[m][c], from + c * 32 + m * 16 * C::kKPitch);
      __syncwarp();
    }
    // Fetches what the next tile begins with.
    const auto next_tile = [&](uint32_t slot) {
      if (item + 1 < end) fetch_last_keys((item + 1) / tiles, slot);
    };
    if (item + 1 < end) fetch_queries(p, ShortPlace(item + 1, tiles), mine);
    if (stages > 1)
      copies.next(stages - 1, C::kKBytes - now, C::kKBytes - now, 0, 1);
    else
      next_tile(C::kKBytes - now);
    device::commit_copies();
    BytePlaces<C> here = at;
    here.k += now, here.v += now;
    first_stage<C>(work, op.lk - (stages - 1) * C::kKeys, factor, p.never, here);
#pragma unroll 1
    for (int stage = stages - 2; stage >= 0; --stage) {
      now = C::kKBytes - now;
      device::wait_copies<0>();
      __syncthreads();
      if (stage == 0) next_tile(C::kKBytes - now);
#pragma unroll
      for (int t = 0; t < C::kSteps; ++t)
        work.step(at.k + now + t * 16 * C::kKPitch, at.v + now + t * 16 * C::kVPitch, factor, p.never, [&] {
          if (t < C::kCopies && stage > 0)
            copies.next(stage, C::kKBytes - now, C::kKBytes - now, t, C::kCopies);
        });
      device::commit_copies();
    }
    now = C::kKBytes - now;
    finish_short(work, p, ShortPlace(item, tiles), item);
    if (item + 1 < end && (item + 1) % tiles == 0)
      copies.k = reinterpret_cast<const char*>(k_of((item + 1) / tiles)),
      copies.v = reinterpret_cast<const char*>(v_of((item + 1) / tiles));
  }
}

}  // namespace tachy::ops::flash
