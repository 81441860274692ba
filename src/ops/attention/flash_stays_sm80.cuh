// Flash attention of some hundred to some thousand keys in bf16, for GPUs since sm_80 whose blocks may have 154 KiB of
// shared memory: out = softmax(q·kᵀ)·v for heads of 128 channels and at least 128 keys, without masks or biases.
//
// The steps are those of flash_long_sm80.cuh. There a block of 256 queries waits for its queries, then for its first
// keys, and at its end for its result, which is a third of the time where a head has 512 keys. Here a block stays on
// its multiprocessor and takes one tile after the other:
//   - All tiles of a head need the same keys. So the stages go round and round over them, and the first stage of a
//     tile is fetched like any other, while the last one of the tile before is multiplied.
//   - Only the last stage of a head can meet the end of the keys. It ends there and begins within the stage before.
//   - A tile's beginning asks the second-level cache for the next tile's queries, and its end loads them before it
//     stores the result.
//   - Queries and results pass through a patch of the warp's own, 16 rows of 64 channels, so that whole lines are loaded and
//     stored: the fragments' own pieces of 4 and 8 bytes take several times as many requests.
#pragma once

#include "ops/attention/flash_long_sm80.cuh"

namespace tachy::ops::flash {

template <int kKeys_>
struct StaysTile : LongTile<kKeys_> {
  using Long = LongTile<kKeys_>;
  static constexpr int kPatchPitch = 128 + 16, kPatchBytes = 16 * kPatchPitch;
  static constexpr uint32_t kPatchesAt = Long::kStagesEnd;
  static constexpr size_t kSharedBytes = kPatchesAt + Long::kWarps * kPatchBytes;
};

__device__ __forceinline__ uint4 load_chunk(const void* from) {
  uint4 r;
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(from));
  return r;
}
__device__ __forceinline__ void ask_cache(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// How a warp's 32 queries and their results pass through its patch, in four passes. In each a lane has 16 bytes of every
// fourth row.
template <class C>
struct StaysWarp : LongWarp<C> {
  using LongWarp<C>::q, LongWarp<C>::o, LongWarp<C>::ones;
  static constexpr int kPitch = C::kPatchPitch;

  // How far a lane's chunk of a row is from the head's first one, in bytes. They fit 32 bits, which makes 64 instructions
  // of 160.
  __device__ __forceinline__ static uint32_t offset(int row, uint32_t row_bytes) {
    return static_cast<uint32_t>(row) * row_bytes + (threadIdx.x & 7) * 16;
  }
  // Queries beyond the last one are copies of it.
  __device__ __forceinline__ static void load(uint4 (&rows)[4][4], const Params& op,
                                              const __nv_bfloat16* head, int first_row) {
    const uint32_t row_bytes = static_cast<uint32_t>(op.qs.row * 2), last = offset(op.lq - 1, row_bytes);
    const uint32_t first = offset(first_row + static_cast<int>(threadIdx.x >> 3 & 3), row_bytes);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const char* row = reinterpret_cast<const char*>(head) + min(first + 4 * i * row_bytes, last);
#pragma unroll
      for (int half = 0; half < 2; ++half) rows[i / 4 * 2 + half][i % 4] = load_chunk(row + half * 128);
    }
  }
  __device__ __forceinline__ void take(const uint4 (&rows)[4][4], char* patch, uint32_t address) {
    const int lane = threadIdx.x & 31;
    char* mine = patch + lane / 8 * kPitch + lane % 8 * 16;
    const uint32_t fragment = address + (lane & 15) * kPitch + lane / 16 * 16;
#pragma unroll
    for (int pass = 0; pass < 4; ++pass) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i) *reinterpret_cast<uint4*>(mine + 4 * i * kPitch) = rows[pass][i];
      __syncwarp();
#pragma unroll
      for (int c = 0; c < 4; ++c) device::load_tiles(q[pass / 2][pass % 2 * 4 + c], fragment + c * 32);
    }
  }
  // Divides and writes 32 rows of the result. Returns whether they must be computed again.
  __device__ __forceinline__ bool store(const Params& op, __nv_bfloat16* head, int first_row,
                                        char* patch) const {
    const int lane = threadIdx.x & 31;
    const uint32_t row_bytes = static_cast<uint32_t>(op.os.row * 2), last = offset(op.lq - 1, row_bytes);
    const uint32_t first = offset(first_row + lane / 8, row_bytes);
    char* piece = patch + lane / 4 * kPitch + lane % 4 * 4;
    const char* chunk = patch + lane / 8 * kPitch + lane % 8 * 16;
    float inverse[4];
    bool bad = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) {  // rows g + 8·r
      const float sum = ones[r / 2][r % 2 * 2];
      bad |= !(sum > C::kLeastSum && sum < C::kMostSum);
      inverse[r] = __fdividef(1, sum);
    }
#pragma unroll
    for (int pass = 0; pass < 4; ++pass) {
      const int m = pass / 2, half = pass % 2;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int r = i / 8, n = i % 8;
        const float* value = &o[m][half * 8 + n][r * 2];
        *reinterpret_cast<uint32_t*>(piece + r * 8 * kPitch + n * 16) =
            device::pack_pair<__nv_bfloat16>(value[0] * inverse[2 * m + r], value[1] * inverse[2 * m + r]);
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t at = first + (16 * m + 4 * i) * row_bytes;
        const uint4 u = *reinterpret_cast<const uint4*>(chunk + 4 * i * kPitch);
        if (at <= last) *reinterpret_cast<uint4*>(reinterpret_cast<char*>(head) + at + half * 128) = u;
      }
    }
    return __any_sync(~0u, bad);
  }
  // A step of 16 keys, which may be a tile's first ones.
  __device__ __forceinline__ void step(bool begins, uint32_t k_address, uint32_t v_address, float factor,
                                       bool never, auto&& copy) {
    LongScores s;
    Weights w;
    this->scores(s, k_address);
    if (begins) this->clear(), this->begin(s, factor);
    part(never);
#pragma unroll
    for (int i = 0; i < 8; ++i) this->weigh(w, s, i / 2, i % 2, factor);
    add_weighted<C>(o, ones, w, v_address, never, copy);
    if (C::kKeys == 64) part(never);
  }
  // A head's last stage, whose first `absent` keys were in the stage before it.
  __device__ __forceinline__ void last_stage(int absent, uint32_t k_address, uint32_t v_address, float factor,
                                             bool never) {
#pragma unroll 1
    for (int t = absent / 16; t < C::kSteps; ++t) {
      LongScores s;
      Weights w;
      this->scores(s, k_address + t * 16 * C::kKPitch);
      const int column = 2 * static_cast<int>(threadIdx.x & 3) + t * 16;
#pragma unroll
      for (int i = 0; i < 16; ++i)
        if (column + i / 4 % 2 * 8 + i % 2 < absent) s[i / 8][i / 4 % 2][i % 4] = -INFINITY;
#pragma unroll
      for (int i = 0; i < 8; ++i) this->weigh(w, s, i / 2, i % 2, factor);
      add_weighted<C>(o, ones, w, v_address + t * 16 * C::kVPitch, never, [] {});
    }
  }
};

// A tile of C's rows of one head.
struct StaysPlace {
  int tile, head, batch;

  __device__ __forceinline__ StaysPlace next(int tiles, int heads) const {
    const bool same_head = tile + 1 < tiles, same_batch = same_head || head + 1 < heads;
    return {same_head ? tile + 1 : 0,
            same_head    ? head
            : same_batch ? head + 1
                         : 0,
            same_batch ? batch : batch + 1};
  }
  __device__ __forceinline__ const __nv_bfloat16* in(const void* tensor, const Strides& s) const {
    return static_cast<const __nv_bfloat16*>(tensor) + batch * s.batch + head * s.head;
  }
  __device__ __forceinline__ uint32_t offset(const Strides& s) const {
    return static_cast<uint32_t>((batch * s.batch + head * s.head) * 2);
  }
  // The warp's first row.
  __device__ __forceinline__ int row(int rows) const {
    return tile * rows + static_cast<int>(threadIdx.x / 32) * 32;
  }
};

// A block takes an equal share of all `items`, which are `tiles` of each head. There are at least C::kKeys keys, channels
// are C::kDim, and K and V have equal strides. Each of them has less than 4 GiB, as have a head's queries and its result.
template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    stays_attention_kernel(const ByteParams p, float factor, int tiles, int items) {
  extern __shared__ __align__(1024) char shared[];
  const Params& op = p.to;
  const int stages = (op.lk + C::kKeys - 1) / C::kKeys,
            end = static_cast<int>(int64_t{items} * (blockIdx.x + 1) / gridDim.x);
  int item = static_cast<int>(int64_t{items} * blockIdx.x / gridDim.x);
  const uint32_t row_bytes = static_cast<uint32_t>(op.ks.row * 2);
  if (item >= end) return;
  StaysPlace place{item % tiles, item / tiles % p.heads, item / tiles / p.heads};
  const auto following = [&] { return item + 1 < items ? place.next(tiles, p.heads) : place; };
  const BytePlaces<C> at(device::shared_address(shared));
  const uint32_t patch = C::kPatchesAt + threadIdx.x / 32 * C::kPatchBytes;
  TwinCopies<C> copies(at.base);
  copies.begin(place.offset(op.ks), row_bytes);
  copies.copy(op.k, op.v, row_bytes, 0, 1);
  device::commit_copies();
  StaysWarp<C> work;
  {
    uint4 rows[4][4];
    work.load(rows, op, place.in(op.q, op.qs), place.row(C::kRows));
    work.take(rows, shared + patch, at.base + patch);
  }
  uint32_t k_at = at.k, v_at = at.v, turn = C::kKBytes;  // what leads to the other stage
#pragma unroll 1
  for (; item < end; ++item) {
    {
      const StaysPlace next = following();
      const int row = min(next.row(C::kRows) + static_cast<int>(threadIdx.x & 31), op.lq - 1);
      const char* from = reinterpret_cast<const char*>(next.in(op.q, op.qs)) +
                         static_cast<uint32_t>(row) * static_cast<uint32_t>(op.qs.row * 2);
      ask_cache(from), ask_cache(from + 128);
    }
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      device::wait_copies<0>();
      __syncthreads();
      copies.to += turn;
      if (stage + 1 < stages)
        copies.from += static_cast<uint32_t>(min(C::kKeys, op.lk - (stage + 1) * C::kKeys)) * row_bytes;
      else
        copies.begin(following().offset(op.ks), row_bytes);  // after the last item in vain
      const int absent = stages * C::kKeys - op.lk;
      if (stage + 1 == stages && absent > 0) {
        copies.copy(op.k, op.v, row_bytes, 0, 1);
        work.last_stage(absent, k_at, v_at, factor, p.never);
      } else {
#pragma unroll(kPartsAtOnce <C>)
        for (int part = 0; part < C::kParts; ++part) {
#pragma unroll
          for (int t = 0; t < 4; ++t)
            work.step(t == 0 && part == 0 && stage == 0, k_at + (part * 4 + t) * 16 * C::kKPitch,
                      v_at + (part * 4 + t) * 16 * C::kVPitch, factor, p.never, [&] {
                        if (part * 4 + t < C::kCopies)
                          copies.copy(op.k, op.v, row_bytes, part * 4 + t, C::kCopies);
                      });
        }
      }
      device::commit_copies();
      k_at += turn, v_at += turn, turn = -turn;
    }
    const StaysPlace next = following();
    uint4 rows[4][4];
    work.load(rows, op, next.in(op.q, op.qs), next.row(C::kRows));
    const bool again = work.store(op, const_cast<__nv_bfloat16*>(place.in(op.out, op.os)),
                                  place.row(C::kRows), shared + patch);
    work.take(rows, shared + patch, at.base + patch);
    if ((threadIdx.x & 31) == 0) p.bad[int64_t{item} * C::kWarps + threadIdx.x / 32] = again;
    place = next;
  }
  device::wait_copies<0>();
}

}  // namespace tachy::ops::flash
