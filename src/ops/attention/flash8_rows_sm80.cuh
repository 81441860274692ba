// The kernels of flash8_sm80.cuh: how a block's rows begin and end, and how K and V reach shared memory.
#pragma once

#include "ops/attention/flash8_sm80.cuh"

namespace tachy::ops::flash {

// Where a lane finds fragments, in rows of 128 or 256 bytes, for A or B.
template <class C>
struct BytePlaces {
  uint32_t base, a128, b128, a256;
  __device__ explicit BytePlaces(uint32_t shared) : base(shared) {
    const int lane = threadIdx.x & 31, row_a = lane & 15, half_a = lane >> 4,
              row_b = (lane & 7) + ((lane >> 4) << 3), half_b = (lane >> 3) & 1;
    a128 = base + row_a * C::kKPitch + half_a * 16;
    b128 = base + row_b * C::kKPitch + half_b * 16;
    a256 = base + C::kVAt + row_a * C::kVPitch + half_a * 16;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(b128), "+r"(a256));
  }
};

// Loads rows [first, first + kRows) of kBytes each into shared memory; what lies past `limit` rows or `end`
// bytes becomes zero.
template <int kBytes, int kPitch, int kRows, int kThreads>
__device__ __forceinline__ void load_padded(uint32_t to, const void* from, int64_t stride, int first,
                                            int limit, int end) {
  constexpr int kStep = kThreads / (kBytes / 16);
  const int column = threadIdx.x % (kBytes / 16) * 16, row = threadIdx.x / (kBytes / 16);
  const char* p = static_cast<const char*>(from) + (first + row) * stride + column;
  uint32_t address = to + row * kPitch + column;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const bool present = column < end && first + row + i * kStep < limit;
    device::copy_async(address, present ? p : from, present);
    p += kStep * stride, address += kStep * kPitch;
  }
}

// Copies whole stages of K and V, a part at a time.
template <class C>
struct StageCopies {
  static constexpr int kChunksK = C::kKRow / 16, kStepK = C::kThreads / kChunksK,
                       kStepV = C::kThreads / 16;  // rows that all threads copy at once
  static constexpr int kPassesK = C::kKeys / kStepK, kPassesV = C::kKeys / kStepV;
  const char *k, *v;                    // of the head
  int64_t bytes_k, bytes_v;             // of a row
  uint32_t from_k, from_v, to_k, to_v;  // the thread's own offsets and places
  bool inside;

  __device__ __forceinline__ StageCopies(const void* k_, int64_t bytes_k_, const void* v_, int64_t bytes_v_,
                                         int end, uint32_t base)
      : k(static_cast<const char*>(k_)),
        v(static_cast<const char*>(v_)),
        bytes_k(bytes_k_),
        bytes_v(bytes_v_) {
    const int row_k = threadIdx.x / kChunksK, column_k = threadIdx.x % kChunksK * 16;
    const int row_v = threadIdx.x / 16, column_v = threadIdx.x % 16 * 16;
    inside = column_v < end;
    from_k = row_k * static_cast<uint32_t>(bytes_k) + column_k;
    from_v = row_v * static_cast<uint32_t>(bytes_v) + column_v;
    to_k = base + row_k * C::kKPitch + column_k, to_v = base + C::kVAt + row_v * C::kVPitch + column_v;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(from_k), "+r"(from_v), "+r"(to_k), "+r"(to_v));
  }
  // Begins to copy a part of v of the stage before `stage`, and of k of the one kAhead before it. There must be
  // a stage before the first one; what the first keys have no more of is copied once more in vain.
  __device__ __forceinline__ void next(int stage, uint32_t slot_v, uint32_t slot_k, int part,
                                       int parts) const {
    const char* v_now = v + max(stage - 1, 0) * (bytes_v * C::kKeys);
    const char* k_now = k + max(stage - C::kAhead, 0) * (bytes_k * C::kKeys);
#pragma unroll
    for (int i = part * (kPassesV / parts); i < (part + 1) * (kPassesV / parts); ++i)
      device::copy_async(to_v + slot_v + i * kStepV * C::kVPitch, v_now + i * (kStepV * bytes_v) + from_v,
                         inside);
#pragma unroll
    for (int i = part * (kPassesK / parts); i < (part + 1) * (kPassesK / parts); ++i)
      device::copy_async(to_k + slot_k + i * kStepK * C::kKPitch, k_now + i * (kStepK * bytes_k) + from_k,
                         C::kCodes || inside);
  }
};

// Loads a block's queries, rows of C::kKRow bytes, into registers.
template <class C, int kChunks>
__device__ __forceinline__ void load_queries(uint32_t (&q)[2][kChunks][4], const void* from, int64_t bytes,
                                             int limit, int end, int first, const BytePlaces<C>& at) {
  load_padded<C::kKRow, C::kKPitch, C::kRows, C::kThreads>(at.base, from, bytes, first, limit, end);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const uint32_t mine = at.a128 + (threadIdx.x / 32) * 32 * C::kKPitch;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int c = 0; c < kChunks; ++c) device::load_tiles(q[m][c], mine + c * 32 + m * 16 * C::kKPitch);
  __syncthreads();
}

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

  // The first stage, in which the keys may end.
  const float* k_scales = p.k_scales + int64_t{bh} * ((lk + 127) / 128);
  float k_scale = k_scales[stage * C::kKeys / 128];
  ByteScores s[2];
  work.clear();
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    Weights w;
    work.scores(s[0], at.b128 + t * 16 * C::kKPitch);
    work.mask(s[0], lk - stage * C::kKeys - t * 16);
    if (t == 0) begin_rows<C>(s[0], p, bh, first_row, k_scale, rows);
    work.use_scale(rows, k_scale);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s[0], i / 2, i % 2);
    add_weighted<C>(work.o, work.ones, w, at.a256 + t * 16 * C::kVPitch, p.never, [] {});
  }
  // The others. Where their stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  work.scores(s[0], at.b128 + now);
  k_scale = k_scales[max(--stage, 0) * C::kKeys / 128];
#pragma unroll 1
  for (; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = k_scales[max(stage - 1, 0) * C::kKeys / 128];
#pragma unroll
    for (int t = 0; t < C::kSteps; ++t)
      work.step(s[t % 2], s[1 - t % 2],
                at.b128 + (t + 1 < C::kSteps ? now + (t + 1) * 16 * C::kKPitch : next),
                at.a256 + v_now + t * 16 * C::kVPitch, p.never, [&] {
                  if (t < C::kParts) copies.next(stage, C::kVBytes - v_now, last, t, C::kParts);
                });
    device::commit_copies();
    const uint32_t free_slot = last;
    last = now, now = next, next = free_slot, v_now = C::kVBytes - v_now;
  }
  device::wait_copies<0>();
  __syncthreads();  // the stages are about to be overwritten
  finish_rows<C>(work.o, work.ones, p, bh, first_row, rows, shared);
}

}  // namespace tachy::ops::flash
