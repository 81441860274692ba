// flash8_sm80.cuh over lists of key blocks. A block of the grid has the 128 queries that share a list, and two such
// blocks run on a multiprocessor. A stage has half of a listed block.
//
// The last block of all may end within a stage and may stand anywhere in a list, so every stage may meet the end of
// the keys. Nothing in the loop of whole stages knows that: a stage that would reach beyond the end begins so
// much earlier that it ends there. What it then has of the keys before its own is taken out where it is
// multiplied, in a loop of its own. Only a list's first stage is cut, since its first 16 keys decide what rows
// subtract; each listed block begins with a key that exists.
#pragma once

#include "ops/attention/flash8_rows_sm80.cuh"

namespace tachy::ops::flash {

// Copies stages that begin at any key, a part at a time. Where a part begins is computed anew, since registers are
// what is short.
template <class C>
struct ListCopies {
  static constexpr int kChunksK = C::kKRow / 16, kStepK = C::kThreads / kChunksK, kStepV = C::kThreads / 16;
  static constexpr int kPassesK = C::kKeys / kStepK, kPassesV = C::kKeys / kStepV;
  const char *k, *v;    // of the head, and of the thread's own row and column
  int bytes_v;          // of a row
  uint32_t to_k, to_v;  // the thread's own places
  bool inside;          // whether the head has the thread's channels

  __device__ __forceinline__ ListCopies(const void* k_, const void* v_, int bytes_v_, int end, uint32_t base)
      : bytes_v(bytes_v_) {
    const int row_k = threadIdx.x / kChunksK, column_k = threadIdx.x % kChunksK * 16;
    const int row_v = threadIdx.x / 16, column_v = threadIdx.x % 16 * 16;
    inside = column_v < end;
    k = static_cast<const char*>(k_) + row_k * C::kKRow + column_k;
    v = static_cast<const char*>(v_) + static_cast<int64_t>(row_v) * bytes_v + column_v;
    to_k = base + row_k * C::kKPitch + column_k, to_v = base + C::kVAt + row_v * C::kVPitch + column_v;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(to_k), "+r"(to_v));
  }
  // These begin to copy a part of k or of v of the stage that begins with a key.
  __device__ __forceinline__ void keys(int first, uint32_t slot, int part, int parts) const {
    const char* from = k + static_cast<int64_t>(first) * C::kKRow;
#pragma unroll
    for (int j = 0; j < kPassesK / parts; ++j) {
      const int i = part * (kPassesK / parts) + j;
      device::copy_async(to_k + slot + i * kStepK * C::kKPitch, from + i * kStepK * C::kKRow, true);
    }
  }
  __device__ __forceinline__ void values(int first, uint32_t slot, int part, int parts) const {
    const char* from = v + static_cast<int64_t>(first + part * (kPassesV / parts) * kStepV) * bytes_v;
#pragma unroll
    for (int j = 0; j < kPassesV / parts; ++j) {
      const int i = part * (kPassesV / parts) + j;
      device::copy_async(to_v + slot + i * kStepV * C::kVPitch, from, inside);
      from += kStepV * bytes_v;
    }
  }
};

// Takes a stage whose first `absent` keys are not its own: all of them, if there are at least kKeys. The values
// of these become zeros, since a weight of zero times infinity would not be zero.
template <class C>
__device__ __noinline__ void zero_values(uint32_t from, int absent) {
  for (int i = threadIdx.x; i < min(absent, C::kKeys) * 16; i += C::kThreads)
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(from + i / 16 * C::kVPitch + i % 16 * 16),
                 "r"(0)
                 : "memory");
  __syncthreads();
}
template <class C>
__device__ __forceinline__ void take_late_stage(ByteWarp<C>& work, int absent, uint32_t k_at, uint32_t v_at,
                                                bool never) {
  ByteScores s;
  Weights w;
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    work.scores(s, k_at + t * 16 * C::kKPitch);
    work.mask_first(s, absent - t * 16);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s, i / 2, i % 2);
    add_weighted<C>(work.o, work.ones, w, v_at + t * 16 * C::kVPitch, never, [] {});
  }
}

// grid [blocks of queries, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, 2) byte_lists_kernel(const ByteParams p, const Lists lists) {
  static_assert(C::kRows == BlockLists::kTokens && C::kKeys == 64);
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, batch = bh / p.heads, head = bh % p.heads, first = blockIdx.x * C::kRows,
            warp = threadIdx.x / 32, first_row = first + warp * 32, lk = p.to.lk;
  const Listed listed = listed_for(lists, batch, head, blockIdx.x);
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  if (listed.count == 0) {  // the launch that repairs writes the zeros
    if (threadIdx.x % 32 == 0) p.bad[(int64_t{bh} * gridDim.x + blockIdx.x) * C::kWarps + warp] = 1;
    return;
  }
  const int stages = listed.count * (Listed::kTokens / C::kKeys), latest = lk - C::kKeys;
  // The first key of a stage, and the key that its copy begins with.
  const auto key_of = [&](int stage) { return listed.key<C::kKeys>(stage); };
  const auto from = [&](int key) { return min(key, latest); };
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * 128, 128, p.to.lq, 128, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;

  const int8_t* k = p.k + int64_t{bh} * lk * 128;
  const void* v =
      C::kHalf ? static_cast<const void*>(static_cast<const __half*>(p.v) + int64_t{bh} * lk * 128)
               : static_cast<const __nv_bfloat16*>(p.to.v) + batch * p.to.vs.batch + head * p.to.vs.head;
  const int v_bytes = C::kHalf ? 256 : static_cast<int>(p.to.vs.row * 2);
  const int v_end = C::kHalf ? 256 : p.to.d * 2;
  // The first keys of this stage and of the two after it.
  int key = key_of(0), key_1 = key_of(1), key_2 = key_of(2);
  load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base, k, 128, key, lk, 128);
  load_padded<C, C::kVRow, C::kVPitch, C::kKeys>(at.base + C::kVAt, v, v_bytes, key, lk, v_end);
  const ListCopies<C> copies(k, v, v_bytes, v_end, at.base);
  copies.keys(from(key_1), C::kKBytes, 0, 1);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  copies.values(from(key_1), C::kVBytes, 0, 1), copies.keys(from(key_2), 2 * C::kKBytes, 0, 1);
  device::commit_copies();

  const auto scale_of = [&](int key) { return p.k_scales[bh * ((lk + 127) / 128) + key / 128]; };
  first_stage<C>(work, p, lk, bh, first_row, key / C::kKeys, scale_of(key), rows, at);
  // Where the other stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  ByteScores s[2];
  work.scores(s[0], at.k + now);
  float k_scale = scale_of(key_1);
#pragma unroll 1
  for (int stage = 1; stage < stages; ++stage) {
    key = key_1, key_1 = key_2, key_2 = key_of(stage + 2);
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = scale_of(key_1);
    const uint32_t k_at = at.k + now, v_at = at.v + v_now;
    if (key > latest) {
      copies.values(from(key_1), C::kVBytes - v_now, 0, 1), copies.keys(from(key_2), last, 0, 1);
      zero_values<C>(at.base + C::kVAt + v_now, key - latest);
      take_late_stage<C>(work, key - latest, k_at, v_at, p.never);
      work.scores(s[0], at.k + next);
    } else {
#pragma unroll
      for (int t = 0; t < 4; ++t)
        work.step(s[t % 2], s[1 - t % 2], t < 3 ? k_at + (t + 1) * 16 * C::kKPitch : at.k + next,
                  v_at + t * 16 * C::kVPitch, p.never, [&] {
                    if (t >= C::kCopies) return;
                    copies.values(from(key_1), C::kVBytes - v_now, t, C::kCopies);
                    copies.keys(from(key_2), last, t, C::kCopies);
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
