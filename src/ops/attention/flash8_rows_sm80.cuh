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
  const int lane = threadIdx.x & 31, column = lane % 16;
  auto* out = static_cast<__nv_bfloat16*>(to.out) + batch * to.os.batch + head * to.os.head;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int row = lane / 16 + i * 2;
    if (first_row + row < to.lq && column * 8 < to.d)
      *reinterpret_cast<uint4*>(out + (first_row + row) * to.os.row + column * 8) =
          *reinterpret_cast<const uint4*>(tile + row * 128 + ((column ^ (row & 7)) << 3));
  }
}

// Divides, stores lse and the output, and notes whether the warp's rows must be computed again.
template <class C>
__device__ __forceinline__ void finish_rows(const float (&o)[2][16][4], const float (&ones)[2][4],
                                            const ByteParams& p, int bh, int first_row, const float2* rows,
                                            char* shared) {
  using T = __nv_bfloat16;
  const Params& to = p.to;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, batch = bh / p.heads, head = bh % p.heads;
  const float coarsest = C::kCodes ? __uint_as_float(p.about[bh].k_coarsest) : 0;
  bool bad = C::kCodes && p.about[bh].broken;
  T* tile = reinterpret_cast<T*>(shared) + warp * 32 * 128;
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
    for (int n = 0; n < 16; ++n) {
      float2 value = {o[r >> 1][n][(r & 1) * 2] * inverse, o[r >> 1][n][(r & 1) * 2 + 1] * inverse};
      if constexpr (C::kHalf) {
        const float2 scale = *reinterpret_cast<const float2*>(p.v_scales + bh * 128 + 8 * n + 2 * (lane & 3));
        value.x *= scale.x, value.y *= scale.y;
        bad |= !(fabsf(value.x) < INFINITY && fabsf(value.y) < INFINITY);
      }
      auto* at = reinterpret_cast<uint32_t*>(tile + in_warp * 128 + ((n ^ (in_warp & 7)) << 3));
      at[lane & 3] = device::pack_pair<T>(value.x, value.y);
    }
  }
  bad = __any_sync(~0u, bad);
  if (lane == 0) p.bad[(int64_t{bh} * gridDim.x + blockIdx.x) * C::kWarps + warp] = bad;
  __syncwarp();
  store_rows<C>(to, batch, head, first_row, tile);
}

// Takes the first stage, in which the keys may end.
template <class C>
__device__ __forceinline__ void first_stage(ByteWarp<C>& work, const ByteParams& p, int bh, int first_row,
                                            int stage, float k_scale, float2* rows, const BytePlaces<C>& at) {
  ByteScores s;
  Weights w;
  work.clear();
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    work.scores(s, at.b128 + t * 16 * C::kKPitch);
    work.mask(s, p.to.lk - stage * C::kKeys - t * 16);
    if (t == 0) begin_rows<C>(s, p, bh, first_row, k_scale, rows);
    work.use_scale(rows, k_scale);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s, i / 2, i % 2);
    add_weighted<C>(work.o, work.ones, w, at.a256 + t * 16 * C::kVPitch, p.never, [] {});
  }
}

// grid [query tiles, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) byte_attention_kernel(const ByteParams p) {
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, first = blockIdx.x * C::kRows, warp = threadIdx.x / 32;
  const int first_row = first + warp * 32, lk = p.to.lk;
  int stage = (lk - 1) / C::kKeys;
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * 128, 128, p.to.lq, 128, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;

  const int8_t* k = p.k + int64_t{bh} * lk * 128;
  const void* v = C::kHalf ? static_cast<const void*>(p.v + int64_t{bh} * lk * 128)
                           : static_cast<const __nv_bfloat16*>(p.to.v) + bh / p.heads * p.to.vs.batch +
                                 bh % p.heads * p.to.vs.head;
  const int64_t v_bytes = C::kHalf ? 256 : p.to.vs.row * 2;
  const int v_end = C::kHalf ? 256 : p.to.d * 2;
  load_padded<128, C::kKPitch, C::kKeys, C::kThreads>(at.base, k, 128, stage * C::kKeys, lk, 128);
  load_padded<256, C::kVPitch, C::kKeys, C::kThreads>(at.base + C::kVAt, v, v_bytes, stage * C::kKeys, lk,
                                                      v_end);
  if (stage > 0)
    load_padded<128, C::kKPitch, C::kKeys, C::kThreads>(at.base + C::kKBytes, k, 128, (stage - 1) * C::kKeys,
                                                        lk, 128);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const StageCopies<C> copies(k, 128, v, v_bytes, v_end, at.base);
  if (stage > 0) copies.next(stage, C::kVBytes, 2 * C::kKBytes, 0, 1);
  device::commit_copies();

  const float* k_scales = p.k_scales + int64_t{bh} * ((lk + 127) / 128);
  first_stage<C>(work, p, bh, first_row, stage, k_scales[stage * C::kKeys / 128], rows, at);
  // Where the other stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  ByteScores s[2];
  work.scores(s[0], at.b128 + now);
  float k_scale = k_scales[max(--stage, 0) * C::kKeys / 128];
#pragma unroll 1
  for (; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = k_scales[max(stage - 1, 0) * C::kKeys / 128];
#pragma unroll(kPartsAtOnce <C>)
    for (int part = 0; part < C::kParts; ++part) {
      const uint32_t k_at = at.b128 + now + part * 64 * C::kKPitch,
                     v_at = at.a256 + v_now + part * 64 * C::kVPitch;
      const uint32_t k_end = part + 1 < C::kParts ? k_at + 64 * C::kKPitch : at.b128 + next;
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

}  // namespace tachy::ops::flash
