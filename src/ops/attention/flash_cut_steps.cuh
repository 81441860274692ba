// The steps of flash_cuts_sm90.cuh's units, from the lists of key blocks that are cut to at most 64 tokens.
//
// A unit has two halves of up to 64 queries: two blocks of queries, which have lists of their own, or the halves of one
// block of 128. A step has two tiles, which are key blocks, and is computed by the halves that list one of them. The
// blocks that both halves list come into shared memory once. So that neither half is idle for long, steps of the
// first half's own blocks, of the second's and of both's take turns evenly. Each kind may have a block too many for
// steps of two; these come last, two to a step.
//
// A block that is listed twice counts twice.
#pragma once

#include "ops/attention/cut_lists.cuh"

namespace tachy::ops::flash {

constexpr int kCutTokens = 64;               // of the largest block
constexpr int64_t kMostCutTokens = 1 << 22;  // of all keys
constexpr int64_t kMostCutBlocks = 1 << 13, kMostListed = 0xffff;

// A tile of a step: its first key, how many keys it has (1 to 64), and the halves that attend to them.
struct CutTile {
  uint32_t word;
  __device__ static CutTile of(int first, int count, uint32_t halves) {
    return {static_cast<uint32_t>(first) | static_cast<uint32_t>(count - 1) << 22 | halves << 28};
  }
  __device__ __forceinline__ int first() const { return static_cast<int>(word & 0x3fffff); }
  __device__ __forceinline__ bool of_half(int half) const { return word >> (28 + half) & 1; }
  // Rows that are loaded of it: 64, 32 or 16, by `size` 0 to 2.
  __device__ __forceinline__ int size() const {
    const int count = static_cast<int>(word >> 22 & 63) + 1;
    return (count <= kCutTokens / 2) + (count <= kCutTokens / 4);
  }
  __device__ __forceinline__ uint32_t rows() const { return static_cast<uint32_t>(kCutTokens) >> size(); }
  // The keys that a half attends to.
  __device__ __forceinline__ int keys(int half) const {
    return of_half(half) ? static_cast<int>(word >> 22 & 63) + 1 : 0;
  }
  // The same keys in vain.
  __device__ __forceinline__ CutTile unused() const { return {word & 0xfffffff}; }
};

struct CutSteps {
  CutLists lists;
  int lk = 0;
  int query_blocks = 0;       // that have lists
  bool pairs = false;         // whether a unit has two of them
  uint2* steps = nullptr;     // [B·H·units][most]
  int32_t* counts = nullptr;  // [B·H·units]
  int most = 0;
};

// How many steps of another kind come before step i of a kind. Both kinds are spread evenly over the same time, step i
// of n at (2i + 1)/2n. `first` says whether the other kind goes first where both are due.
__device__ __forceinline__ int steps_before(int i, int n, int others, bool first) {
  return others == 0 ? 0 : (((2 * i + 1) * others - (first ? 0 : 1)) / n + 1) / 2;
}

// Grid: (units, heads, batch). Shared memory has a word for each key block: how often the first half lists it, and in
// the upper half of the word how often the second does.
__global__ void __launch_bounds__(256) flash_cut_steps(const CutSteps p) {
  extern __shared__ uint32_t listed[];
  __shared__ int sums[8][3];
  constexpr int kThreads = 256;
  const int unit = blockIdx.x, head = blockIdx.y, batch = blockIdx.z, thread = threadIdx.x;
  const int blocks = p.lists.last + 1;
  for (int i = thread; i < blocks; i += kThreads) listed[i] = 0;
  __syncthreads();
  const auto note = [&](int query_block, uint32_t add) {
    const int32_t* list = p.lists.list(batch, head, query_block);
    const int count = p.lists.count(batch, head, query_block);
    for (int i = thread; i < count; i += kThreads) atomicAdd(&listed[p.lists.block(list, i)], add);
  };
  if (p.pairs) {
    note(2 * unit, 1);
    if (2 * unit + 1 < p.query_blocks) note(2 * unit + 1, 0x10000);
  } else {
    note(unit, 0x10001);
  }
  __syncthreads();
  // Each thread has a run of neighbouring blocks. For the first half's own, the second's and both's: how many tiles
  // there are in the runs before, and in all.
  const int each = (blocks + kThreads - 1) / kThreads, begin = min(blocks, thread * each),
            end = min(blocks, begin + each), lane = thread % 32, warp = thread / 32;
  const auto tiles_of = [&](int block, int(&n)[3]) {
    const int first = static_cast<int>(listed[block] & 0xffff),
              second = static_cast<int>(listed[block] >> 16);
    n[2] = min(first, second), n[0] = first - n[2], n[1] = second - n[2];
  };
  int at[3] = {}, all[3] = {};
  for (int i = begin; i < end; ++i) {
    int n[3];
    tiles_of(i, n);
    for (int kind = 0; kind < 3; ++kind) at[kind] += n[kind];
  }
#pragma unroll
  for (int kind = 0; kind < 3; ++kind) {
    const int mine = at[kind];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, at[kind], step);
      if (lane >= step) at[kind] += other;
    }
    if (lane == 31) sums[warp][kind] = at[kind];
    at[kind] -= mine;
  }
  __syncthreads();
  for (int kind = 0; kind < 3; ++kind)
    for (int i = 0; i < kThreads / 32; ++i) {
      if (i < warp) at[kind] += sums[i][kind];
      all[kind] += sums[i][kind];
    }
  const int whole = all[0] / 2 + all[1] / 2 + all[2] / 2, left = all[0] % 2 + all[1] % 2 + all[2] % 2;
  const int64_t place = (int64_t{batch} * gridDim.y + head) * gridDim.x + unit;
  auto* steps = reinterpret_cast<uint32_t*>(p.steps + place * p.most);
  if (thread == 0) p.counts[place] = whole + (left + 1) / 2;
  for (int block = begin; block < end; ++block) {
    int n[3];
    tiles_of(block, n);
    if (n[0] + n[1] + n[2] == 0) continue;
    const Span keys = span_of(p.lists.key_ends, block, p.lk, kCutTokens);
    // Ends that do not rise still name a key that is there.
    const int first = min(keys.first, p.lk - 1), count = max(1, keys.end - keys.first);
    for (int kind = 0; kind < 3; ++kind) {
      const CutTile tile = CutTile::of(first, count, kind + 1);
      for (int i = 0; i < n[kind]; ++i, ++at[kind]) {
        const int step = at[kind] / 2, steps_of_kind = all[kind] / 2;
        if (step < steps_of_kind) {
          int to = step;
          for (int other = 0; other < 3; ++other)
            if (other != kind) to += steps_before(step, steps_of_kind, all[other] / 2, other < kind);
          steps[2 * to + at[kind] % 2] = tile.word;
          continue;
        }
        int rest = 0;
        for (int other = 0; other < kind; ++other) rest += all[other] % 2;
        steps[2 * whole + rest] = tile.word;
        if (rest == left - 1 && rest % 2 == 0) steps[2 * whole + rest + 1] = tile.unused().word;
      }
    }
  }
}

}  // namespace tachy::ops::flash
