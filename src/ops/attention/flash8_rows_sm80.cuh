// How a block's rows begin and end in flash8_sm80.cuh, and its kernel.
#pragma once

#include "ops/attention/flash8_sm80.cuh"
#include "ops/attention/flash_stages_sm80.cuh"

namespace tachy::ops::flash {

// Notes each row's scale, and what it subtracts: the largest of the first 16 scores, as an exponent.
template <class C>
__device__ __forceinline__ void begin_rows(const ByteScores& s, const ByteParams& p, int bh, int first_row,
                                           float k_scale, float2* rows) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; ++i) most = fmaxf(most, __int_as_float(s[r >> 1][i / 2][(r & 1) * 2 + i % 2]));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const int row = (lane >> 2) + 8 * r;
    const float scale = p.q_scales[int64_t{bh} * p.to.lq + min(first_row + row, p.to.lq - 1)];
    if ((lane & 3) == 0) rows[row] = make_float2(scale, (kMagic - most) * scale * k_scale + C::kFirst);
  }
  __syncwarp();
}

// Writes the output, which passes through the stages.
template <class C>
__device__ __forceinline__ void store_rows(const Params& to, int batch, int head, int first_row,
                                           const __nv_bfloat16* tile) {
  constexpr int kChunks = C::kDim / 8, kStep = 32 / kChunks;
  const int lane = threadIdx.x & 31, column = lane % kChunks;
  auto* out = static_cast<__nv_bfloat16*>(to.out) + batch * to.os.batch + head * to.os.head;
#pragma unroll
  for (int i = 0; i < 32 / kStep; ++i) {
    const int row = lane / kChunks + i * kStep;
    if (first_row + row < to.lq && column * 8 < to.d)
      *reinterpret_cast<uint4*>(out + (first_row + row) * to.os.row + column * 8) =
          *reinterpret_cast<const uint4*>(tile + row * C::kDim + ((column ^ (row & 7)) << 3));
  }
}

// Divides, stores lse and the output, and notes whether the warp's rows must be computed again.
template <class C>
__device__ __forceinline__ void finish_rows(const float (&o)[2][C::kDim / 8][4], const float (&ones)[2][4],
                                            const ByteParams& p, int bh, int first_row, const float2* rows,
                                            char* shared) {
  using T = __nv_bfloat16;
  const Params& to = p.to;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, batch = bh / p.heads, head = bh % p.heads;
  const float coarsest = C::kCodes ? __uint_as_float(p.about[bh].k_coarsest) : 0;
  bool bad = C::kCodes && p.about[bh].broken;
  T* tile = reinterpret_cast<T*>(shared) + warp * 32 * C::kDim;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int in_warp = (lane >> 2) + 8 * r, i = first_row + in_warp;
    const float2 row = rows[in_warp];
    const float sum = ones[r >> 1][(r & 1) * 2], inverse = 1 / sum;
    bad |= !(row.x * coarsest <= kCoarsest) || !(sum > C::kLeastSum && sum < C::kMostSum);
    if (to.lse && (lane & 3) == 0 && i < to.lq)
      to.lse[batch * to.lse_batch + head * to.lse_head + i] =
          ((C::kCodes ? p.q_offsets[int64_t{bh} * to.lq + i] : 0) - row.y + __log2f(sum)) * kLn2;
#pragma unroll
    for (int n = 0; n < C::kDim / 8; ++n) {
      float2 value = {o[r >> 1][n][(r & 1) * 2] * inverse, o[r >> 1][n][(r & 1) * 2 + 1] * inverse};
      if constexpr (C::kScalesV) {
        const float2 scale = *reinterpret_cast<const float2*>(p.v_scales + bh * 128 + 8 * n + 2 * (lane & 3));
        value.x *= scale.x, value.y *= scale.y;
        bad |= !(fabsf(value.x) < INFINITY && fabsf(value.y) < INFINITY);
      }
      auto* at = reinterpret_cast<uint32_t*>(tile + in_warp * C::kDim + ((n ^ (in_warp & 7)) << 3));
      at[lane & 3] = device::pack_pair<T>(value.x, value.y);
    }
  }
  bad = __any_sync(~0u, bad);
  if (lane == 0) p.bad[int64_t{bh} * gridDim.x * C::kWarps + first_row / 32] = bad;
  __syncwarp();
  store_rows<C>(to, batch, head, first_row, tile);
}

// Takes the first stage, in which the keys may end.
template <class C>
__device__ __forceinline__ void first_stage(ByteWarp<C>& work, const ByteParams& p, int lk, int bh,
                                            int first_row, int stage, float k_scale, float2* rows,
                                            const BytePlaces<C>& at) {
  ByteScores s;
  Weights w;
  work.clear();
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    work.scores(s, at.k + t * 16 * C::kKPitch);
    work.mask(s, lk - stage * C::kKeys - t * 16);
    if (t == 0) begin_rows<C>(s, p, bh, first_row, k_scale, rows);
    work.use_scale(rows, k_scale);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s, i / 2, i % 2);
    add_weighted<C>(work.o, work.ones, w, at.v + t * 16 * C::kVPitch, p.never, [] {});
  }
}

// Takes a block's queries. With kJoined the keys are those of several ranges: lk of them exist, in scratch with room
// for p.to.lk (flash8_ranges_sm80.cuh).
template <class C, bool kJoined>
__device__ __forceinline__ void attend_bytes(const ByteParams& p, int lk) {
  extern __shared__ __align__(1024) char shared[];
  constexpr bool kOwnV = C::kHalf || kJoined;
  const int bh = blockIdx.y, first = blockIdx.x * C::kRows, warp = threadIdx.x / 32;
  const int first_row = first + warp * 32;
  int stage = (lk - 1) / C::kKeys;
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  if (kJoined && lk == 0) {  // the launch that repairs writes the zeros
    if (threadIdx.x % 32 == 0) p.bad[(int64_t{bh} * gridDim.x + blockIdx.x) * C::kWarps + warp] = 1;
    return;
  }
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * C::kDim, C::kDim, p.to.lq, C::kDim, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;

  const int8_t* k = p.k + int64_t{bh} * p.to.lk * C::kDim;
  const void* v = kOwnV
                      ? static_cast<const char*>(p.v) + int64_t{bh} * p.to.lk * C::kVRow
                      : static_cast<const void*>(static_cast<const __nv_bfloat16*>(p.to.v) +
                                                 bh / p.heads * p.to.vs.batch + bh % p.heads * p.to.vs.head);
  const int64_t v_bytes = kOwnV ? C::kVRow : p.to.vs.row * 2;
  const int v_end = kOwnV ? C::kVRow : p.to.d * 2;
  load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base, k, C::kDim, stage * C::kKeys, lk, C::kDim);
  load_padded<C, C::kVRow, C::kVPitch, C::kKeys>(at.base + C::kVAt, v, v_bytes, stage * C::kKeys, lk, v_end);
  if (stage > 0)
    load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base + C::kKBytes, k, C::kDim, (stage - 1) * C::kKeys,
                                                   lk, C::kDim);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const StageCopies<C> copies(k, C::kDim, v, v_bytes, v_end, at.base);
  if (stage > 0) copies.next(stage, C::kVBytes, 2 * C::kKBytes, 0, 1);
  device::commit_copies();

  const float* k_scales = p.k_scales + int64_t{bh} * ((p.to.lk + 127) / 128);
  first_stage<C>(work, p, lk, bh, first_row, stage, k_scales[stage * C::kKeys / 128], rows, at);
  // Where the other stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  ByteScores s[2];
  work.scores(s[0], at.k + now);
  float k_scale = k_scales[max(--stage, 0) * C::kKeys / 128];
#pragma unroll 1
  for (; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = k_scales[max(stage - 1, 0) * C::kKeys / 128];
#pragma unroll(kPartsAtOnce <C>)
    for (int part = 0; part < C::kParts; ++part) {
      const uint32_t k_at = at.k + now + part * 64 * C::kKPitch, v_at = at.v + v_now + part * 64 * C::kVPitch;
      const uint32_t k_end = part + 1 < C::kParts ? k_at + 64 * C::kKPitch : at.k + next;
#pragma unroll
      for (int t = 0; t < 4; ++t)
        work.step(s[t % 2], s[1 - t % 2], t < 3 ? k_at + (t + 1) * 16 * C::kKPitch : k_end,
                  v_at + t * 16 * C::kVPitch, p.never, [&] {
                    if (part * 4 + t < C::kCopies)
                      copies.next(stage, C::kVBytes - v_now, last, part * 4 + t, C::kCopies);
                  });
    }
    device::commit_copies();
    const uint32_t free_slot = last;
    last = now, now = next, next = free_slot, v_now = C::kVBytes - v_now;
  }
  device::wait_copies<0>();
  __syncthreads();  // the stages are about to be overwritten
  finish_rows<C>(work.o, work.ones, p, bh, first_row, rows, shared);
}

// grid [query tiles, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks) byte_attention_kernel(const ByteParams p) {
  attend_bytes<C, false>(p, p.to.lk);
}

}  // namespace tachy::ops::flash
