// flash8_sm80.cuh over lists of key blocks. A block of the grid has the 128 queries that share a list, and two such
// blocks run on a multiprocessor. A stage has half of a listed block. The last one of all may end within a stage and
// may stand anywhere in a list, so every stage may meet the end of the keys; each listed block begins with a key that
// exists.
#pragma once

#include "ops/attention/flash8_rows_sm80.cuh"

namespace tachy::ops::flash {

// Copies stages that begin at any key, a part at a time; what lies past the last key becomes zero.
template <class C>
struct ListCopies {
  static constexpr int kChunksK = C::kKRow / 16, kStepK = C::kThreads / kChunksK, kStepV = C::kThreads / 16;
  static constexpr int kPassesK = C::kKeys / kStepK, kPassesV = C::kKeys / kStepV;
  const char *k, *v;  // of the head, and of the thread's own row and column
  int64_t bytes_v;    // of a row
  int row_k, row_v, lk;
  uint32_t to_k, to_v;
  bool inside;

  __device__ __forceinline__ ListCopies(const void* k_, const void* v_, int64_t bytes_v_, int end, int lk_,
                                        uint32_t base)
      : bytes_v(bytes_v_), row_k(threadIdx.x / kChunksK), row_v(threadIdx.x / 16), lk(lk_) {
    const int column_k = threadIdx.x % kChunksK * 16, column_v = threadIdx.x % 16 * 16;
    inside = column_v < end;
    k = static_cast<const char*>(k_) + row_k * C::kKRow + column_k;
    v = static_cast<const char*>(v_) + row_v * bytes_v + column_v;
    to_k = base + row_k * C::kKPitch + column_k, to_v = base + C::kVAt + row_v * C::kVPitch + column_v;
  }
  // Begin to copy a part of k or of v, from a first key on. Nearly all stages are whole, and then nothing is
  // compared.
  __device__ __forceinline__ void keys(int first, uint32_t slot, int part, int parts) const {
    const char* from = k + int64_t{first} * C::kKRow;
    const bool whole = first + C::kKeys <= lk;
#pragma unroll
    for (int j = 0; j < kPassesK / parts; ++j) {
      const int i = part * (kPassesK / parts) + j;
      const bool present = whole || first + row_k + i * kStepK < lk;
      device::copy_async(to_k + slot + i * kStepK * C::kKPitch, from + i * kStepK * C::kKRow, present);
    }
  }
  __device__ __forceinline__ void values(int first, uint32_t slot, int part, int parts) const {
    const char* from = v + first * bytes_v;
    const bool whole = first + C::kKeys <= lk;
#pragma unroll
    for (int j = 0; j < kPassesV / parts; ++j) {
      const int i = part * (kPassesV / parts) + j;
      const bool present = inside && (whole || first + row_v + i * kStepV < lk);
      device::copy_async(to_v + slot + i * kStepV * C::kVPitch, from + i * (kStepV * bytes_v), present);
    }
  }
};

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
  const int stages = listed.count * (Listed::kTokens / C::kKeys);
  const auto key_of = [&](int stage) { return listed.key<C::kKeys>(stage); };
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * 128, 128, p.to.lq, 128, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;

  const void* v =
      C::kHalf ? static_cast<const void*>(p.v + int64_t{bh} * lk * 128)
               : static_cast<const __nv_bfloat16*>(p.to.v) + batch * p.to.vs.batch + head * p.to.vs.head;
  const ListCopies<C> copies(p.k + int64_t{bh} * lk * 128, v, C::kHalf ? 256 : p.to.vs.row * 2,
                             C::kHalf ? 256 : p.to.d * 2, lk, at.base);
  // The first keys of this stage and of the two after it.
  int key = key_of(0), key_1 = key_of(1), key_2 = key_of(2);
  copies.keys(key, 0, 0, 1), copies.values(key, 0, 0, 1), copies.keys(key_1, C::kKBytes, 0, 1);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  copies.values(key_1, C::kVBytes, 0, 1), copies.keys(key_2, 2 * C::kKBytes, 0, 1);
  device::commit_copies();

  const float* k_scales = p.k_scales + int64_t{bh} * ((lk + 127) / 128);
  first_stage<C>(work, p, bh, first_row, key / C::kKeys, k_scales[key / 128], rows, at);
  // Where the other stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  ByteScores s[2];
  work.scores(s[0], at.b128 + now);
  float k_scale = k_scales[key_1 / 128];
#pragma unroll 1
  for (int stage = 1; stage < stages; ++stage) {
    key = key_1, key_1 = key_2;
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = k_scales[key_1 / 128];
    key_2 = key_of(stage + 2);
    const uint32_t k_at = at.b128 + now, v_at = at.a256 + v_now;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      if (key + (t + 1) * 16 > lk) work.mask(s[t % 2], lk - key - t * 16);
      work.step(s[t % 2], s[1 - t % 2], t < 3 ? k_at + (t + 1) * 16 * C::kKPitch : at.b128 + next,
                v_at + t * 16 * C::kVPitch, p.never, [&] {
                  if (t >= C::kCopies) return;
                  copies.values(key_1, C::kVBytes - v_now, t, C::kCopies);
                  copies.keys(key_2, last, t, C::kCopies);
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
