// Attention of some hundred keys, such as a prompt's 512, in bf16 by mma.sync: a lab's kernel, which no program takes.
// out = softmax(q·kᵀ)·v for heads of 128 channels whose keys fill whole stages, without masks or biases.
//
// The steps are those of flash_long_sm80.cuh. There a block of 256 queries waits for its queries, then for its first
// keys, and at its end for its result, which is a third of the time where a head has 512 keys. Here a block stays on
// its multiprocessor and takes one tile after the other:
//   - All tiles of a head need the same keys. So the stages go round and round over them, and the first stage of a
//     tile is fetched like any other, while the last one of the tile before is multiplied.
//   - Queries come from global memory into registers as fragments, so that no shared memory is needed for them and
//     stages of 128 keys fit 163 KiB. A tile's first lines ask the second-level cache for the next tile's queries.
//   - The result goes from registers to global memory, in whole sectors of 32 bytes.
//   - The first 16 scores of a tile are computed twice: once for what a row subtracts, and once in the loop.
// With kOutOfStep the second half of a block's warps is half a round behind the first. Two warps share a scheduler, one
// of each half, so that one multiplies while the other ends a tile and begins the next.
#pragma once

#include "ops/attention/flash_long_sm80.cuh"

namespace tachy::ops::flash {

template <int kKeys_, bool kOutOfStep_, int kWarps_ = 8, int kBlocks_ = 1>
struct StayingTile : LongTile<kKeys_, kWarps_, 128, kBlocks_> {
  static constexpr bool kOutOfStep = kOutOfStep_;
  static constexpr size_t kSharedBytes = LongTile<kKeys_, kWarps_, 128, kBlocks_>::kStagesEnd;
};

__device__ __forceinline__ uint32_t load_word(const void* from) {
  uint32_t r;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(r) : "l"(from));
  return r;
}
__device__ __forceinline__ void ask_cache(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

template <class C>
struct StayingWarp : LongWarp<C> {
  using LongWarp<C>::q, LongWarp<C>::o, LongWarp<C>::ones;

  // Loads 32 queries; those beyond the last one are copies of it. (Loads of 16 bytes and shuffles within quads instead
  // of 4 bytes for each register make the compiler move registers in the loop: 947 instructions in place of 622.)
  __device__ __forceinline__ void fetch(const Params& op, const __nv_bfloat16* from, int first_row) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // row g + 8·i
      const int row = min(first_row + (lane >> 2) + 8 * i, op.lq - 1);
      const __nv_bfloat16* p = from + row * op.qs.row + (lane & 3) * 2;
#pragma unroll
      for (int n = 0; n < 16; ++n) q[i >> 1][n >> 1][(i & 1) + 2 * (n & 1)] = load_word(p + n * 8);
    }
  }
  // Divides and writes 32 rows of the result. Returns whether they must be computed again.
  __device__ __forceinline__ bool store(const Params& op, __nv_bfloat16* to, int first_row) const {
    const int lane = threadIdx.x & 31;
    const bool odd = lane & 1;
    bool bad = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first_row + (lane >> 2) + 8 * r;
      const float sum = ones[r >> 1][(r & 1) * 2], inverse = 1 / sum;
      bad |= !(sum > C::kLeastSum && sum < C::kMostSum);
      __nv_bfloat16* p = to + row * op.os.row + (odd ? 8 : 0) + (lane & 2) * 2;
      uint2 u[C::kDim /
              16];  // of two chunks, in the quad's even lanes the first one's, in the odd ones the second's
#pragma unroll
      for (int n = 0; n < C::kDim / 16; ++n) {
        uint32_t own[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const float* value = &o[r >> 1][2 * n + j][(r & 1) * 2];
          own[j] = device::pack_pair<__nv_bfloat16>(value[0] * inverse, value[1] * inverse);
        }
        const uint32_t got = __shfl_xor_sync(~0u, odd ? own[0] : own[1], 1);
        u[n] = odd ? make_uint2(got, own[1]) : make_uint2(own[0], got);
      }
      if (row < op.lq) {
#pragma unroll
        for (int n = 0; n < C::kDim / 16; ++n) *reinterpret_cast<uint2*>(p + n * 16) = u[n];
      }
    }
    return __any_sync(~0u, bad);
  }
};

// Copies stages of K and V, which have equal strides. A thread keeps its own offset from either tensor and its own
// place, and nothing else: the loop has no register left.
template <class C>
struct TwinCopies {
  static constexpr int kStep = C::kThreads / (C::kKRow / 16), kPasses = C::kKeys / kStep;
  uint32_t from, to;

  __device__ __forceinline__ TwinCopies(const Params& op, uint32_t head, uint32_t base) {
    const uint32_t row = threadIdx.x / (C::kKRow / 16), column = threadIdx.x % (C::kKRow / 16) * 16;
    from = head + row * static_cast<uint32_t>(op.ks.row * 2) + column;
    to = base + row * C::kKPitch + column;
  }
  __device__ __forceinline__ void copy(const Params& op, int part, int parts) const {
#pragma unroll
    for (int j = 0; j < kPasses / parts; ++j) {
      const int i = part * (kPasses / parts) + j;
      const uint32_t at = from + i * (kStep * static_cast<uint32_t>(op.ks.row * 2));
      device::copy_async(to + i * kStep * C::kKPitch, static_cast<const char*>(op.k) + at, true);
      device::copy_async(to + C::kVAt + i * kStep * C::kVPitch, static_cast<const char*>(op.v) + at, true);
    }
  }
};

// A block takes an equal share of the tiles of all heads, `tiles` of each. Keys fill whole stages, channels are
// C::kDim, and K and V have equal strides and less than 4 GiB.
template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    staying_attention_kernel(const ByteParams p, float factor, int tiles, int items) {
  using T = __nv_bfloat16;
  extern __shared__ __align__(1024) char shared[];
  const Params& op = p.to;
  const int stages = op.lk / C::kKeys, behind = C::kOutOfStep ? stages / 2 : 0;
  const uint32_t stage_bytes = C::kKeys * static_cast<uint32_t>(op.ks.row * 2);
  int item = static_cast<int>(int64_t{items} * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(int64_t{items} * (blockIdx.x + 1) / gridDim.x);
  if (item >= end) return;
  // The second half of the warps.
  const bool late = C::kOutOfStep && __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0) >= C::kWarps / 2;
  const auto second = [&] { return C::kOutOfStep && late; };
  const auto head_of = [&](const void* from, const Strides& s, int bh) {
    return static_cast<const T*>(from) + bh / p.heads * s.batch + bh % p.heads * s.head;
  };
  const auto offset_of = [&](int bh) {
    return static_cast<uint32_t>((bh / p.heads * op.ks.batch + bh % p.heads * op.ks.head) * 2);
  };
  const auto my_row = [&](int tile) { return tile * C::kRows + static_cast<int>(threadIdx.x / 32) * 32; };
  const BytePlaces<C> at(device::shared_address(shared));
  TwinCopies<C> copies(op, offset_of(item / tiles), at.base);
  copies.copy(op, 0, 1);
  device::commit_copies();
  StayingWarp<C> work;
  uint32_t k_at = at.k, v_at = at.v, turn = C::kKBytes;  // what leads to the other stage
#pragma unroll 1
  while (item < end) {  // the tiles of one head
    const int bh = item / tiles, first = item % tiles, count = min(tiles - first, end - item);
    item += count;
    work.fetch(op, head_of(op.q, op.qs, bh), my_row(first));
    int stage = 0, round = 0;  // the stage that is multiplied, and how often all of them were
#pragma unroll 1
    for (int rest = count * stages + behind; rest > 0; --rest) {
      device::wait_copies<0>();
      __syncthreads();
      copies.to += turn;
      if (rest == 1)  // the next head's first stage, or the last head's in vain
        copies.from += offset_of(min(item, items - 1) / tiles) - offset_of(bh) - stage * stage_bytes;
      else
        copies.from += stage + 1 < stages ? stage_bytes : -(stage * stage_bytes);
      const bool busy = second() ? round > 0 || stage >= behind : round < count;
      if (busy) {
        if (stage == (second() ? behind : 0)) {
          LongScores s;
          work.clear();
          work.scores(s, k_at);
          work.begin(s, factor);
          if (round + 1 < count) {
            const int row = my_row(first + round + 1) + static_cast<int>(threadIdx.x & 31);
            const T* from = head_of(op.q, op.qs, bh) + min(row, op.lq - 1) * op.qs.row;
            ask_cache(from), ask_cache(from + 64);
          }
        }
#pragma unroll(kPartsAtOnce <C>)
        for (int part = 0; part < C::kParts; ++part) {
#pragma unroll
          for (int t = 0; t < 4; ++t)
            work.step(k_at + (part * 4 + t) * 16 * C::kKPitch, v_at + (part * 4 + t) * 16 * C::kVPitch,
                      factor, p.never, [&] {
                        if (part * 4 + t < C::kCopies) copies.copy(op, part * 4 + t, C::kCopies);
                      });
        }
        device::commit_copies();
        if (stage + 1 == (second() && behind > 0 ? behind : stages)) {
          const int tile = first + round - (second() && behind > 0 ? 1 : 0), row = my_row(tile);
          if (tile + 1 < first + count) work.fetch(op, head_of(op.q, op.qs, bh), row + C::kRows);
          const bool again = work.store(op, const_cast<T*>(head_of(op.out, op.os, bh)), row);
          if ((threadIdx.x & 31) == 0)
            p.bad[(int64_t{bh} * tiles + tile) * C::kWarps + threadIdx.x / 32] = again;
        }
      } else {
        copies.copy(op, 0, 1);
        device::commit_copies();
      }
      k_at += turn, v_at += turn, turn = -turn;
      if (++stage == stages) stage = 0, ++round;
    }
  }
  device::wait_copies<0>();
}

}  // namespace tachy::ops::flash
