// Attention over lists of key blocks that are cut to at most 64 tokens, by flash_sm80.cuh's warps: a stage is a listed
// block, whose last rows may be absent, and a block of threads has the queries of one list, at most 32 for each warp.
#pragma once

#include "ops/attention/cut_lists.cuh"
#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

constexpr int kCutStage = kSub;  // keys of the largest block

// As load_rows, also for 64 threads and 128 columns. There a thread's rows are 4 apart, not 8, so that the swizzle puts
// its chunks at two places of a row in turn.
template <class T, int kDim, int kRows, int kThreads>
__device__ __forceinline__ void load_cut(uint32_t to, const T* from, int64_t stride, Span rows, int d) {
  constexpr int kChunks = kDim / 8, kStep = kThreads / kChunks;
  static_assert(kStep % 4 == 0 && kRows % kStep == 0);
  const int column = threadIdx.x % kChunks, row = threadIdx.x / kChunks;
  const bool inside = column * 8 < d;
  const T* p = from + int64_t{rows.first + row} * stride + column * 8;
  uint32_t address = to + row * kDim * 2 + ((column ^ (row & 7)) << 4);
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const bool present = inside && rows.first + row + i * kStep < rows.end;
    device::copy_async(address, present ? p : from, present);
    p += kStep * stride, address = (address + kStep * kDim * 2) ^ ((kStep & 4) << 4);
  }
}

// Grid: (blocks of queries, heads, batch).
template <class T, int kDim, int kWarps>
__global__ void __launch_bounds__(kWarps * 32)
    attention_cuts_kernel(const Params given, const CutLists lists) {
  extern __shared__ __align__(1024) char shared[];
  constexpr int kThreads = kWarps * 32, kRows = kWarps * 32;
  constexpr uint32_t kStageBytes = kCutStage * kDim * 2;
  const int batch = blockIdx.z, head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Span queries = span_of(lists.query_ends, blockIdx.x, given.lq, kRows);
  const int32_t* list = lists.list(batch, head, blockIdx.x);
  const int count = lists.count(batch, head, blockIdx.x);
  const T* q = static_cast<const T*>(given.q) + batch * given.qs.batch + head * given.qs.head;
  const T* k = static_cast<const T*>(given.k) + batch * given.ks.batch + head * given.ks.head;
  const T* v = static_cast<const T*>(given.v) + batch * given.vs.batch + head * given.vs.head;
  const Places<kRows, kCutStage, kDim> at(shared);
  Params p = given;
  p.lq = queries.end;
  load_cut<T, kDim, kRows, kThreads>(at.q, q, p.qs.row, queries, p.d);
  Warp<T, kDim, kWarps, kCutStage, Bias::none> work;
  work.lane = lane, work.first_row = queries.first + warp * 32;
  work.clear();
  // The keys of listed block i; of blocks that are not there, those of some other.
  const auto keys_of = [&](int i) {
    if (count == 0) return Span{0, 0};
    return span_of(lists.key_ends, lists.block(list, min(i, count - 1)), given.lk, kCutStage);
  };
  const auto load_stage = [&](int i, Span keys) {
    const uint32_t to = (i & 1) * kStageBytes;
    load_cut<T, kDim, kCutStage, kThreads>(at.k + to, k, p.ks.row, keys, p.d);
    load_cut<T, kDim, kCutStage, kThreads>(at.v + to, v, p.vs.row, keys, p.d);
  };
  // The keys of this stage, the next one and the one after it, which are looked up that early.
  Span keys[3] = {keys_of(0), keys_of(1), keys_of(2)};
  if (count > 0) load_stage(0, keys[0]);
  device::commit_copies();
  // The chunks that this lane passes to ldmatrix, as in take_keys.
  const int row_a = lane & 15, half_a = lane >> 4, row_b = (lane & 7) + ((lane >> 4) << 3),
            half_b = (lane >> 3) & 1;
  const uint32_t a_offset = row_a * kDim * 2 + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t b_offset = row_b * kDim * 2 + ((half_b ^ (row_b & 7)) << 4);
  const uint32_t q_address = at.q + warp * 32 * kDim * 2 + a_offset;
  for (int i = 0; i < count; ++i) {
    device::wait_copies<0>();
    __syncthreads();
    if (i + 1 < count) load_stage(i + 1, keys[1]);
    device::commit_copies();
    const uint32_t from = (i & 1) * kStageBytes;
    p.lk = keys[0].end;
    if (keys[0].first < keys[0].end)
      work.keys(p, head, keys[0].first, q_address, at.k + from + b_offset, at.v + from + a_offset, nullptr);
    keys[0] = keys[1], keys[1] = keys[2], keys[2] = keys_of(i + 3);
  }
  if (count == 0) {
    device::wait_copies<0>();
    __syncthreads();  // the query tile is about to be overwritten
  }
  work.finish(p, batch, head, reinterpret_cast<T*>(shared) + warp * 32 * kDim);
}

}  // namespace tachy::ops::flash
