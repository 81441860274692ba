// How queries, K and V reach shared memory in flash8_sm80.cuh, flash_long_sm80.cuh and flash_stays_sm80.cuh. A tile C says how long rows
// are (kKRow bytes in kKPitch, V's kVRow in kVPitch), how many keys a stage has, where the stages of V begin, and how
// many of its threads copy.
#pragma once

#include "device/mma_sm80.cuh"

namespace tachy::ops::flash {

// Where a lane finds fragments: of queries as A, of K and of V as B.
template <class C>
struct BytePlaces {
  uint32_t base, q, k, v;
  __device__ explicit BytePlaces(uint32_t shared) : base(shared) {
    const int lane = threadIdx.x & 31, row_a = lane & 15, half_a = lane >> 4,
              row_b = (lane & 7) + ((lane >> 4) << 3), half_b = (lane >> 3) & 1;
    q = base + row_a * C::kKPitch + half_a * 16;
    k = base + row_b * C::kKPitch + half_b * 16;
    v = base + C::kVAt + row_a * C::kVPitch + half_a * 16;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(k), "+r"(v));
  }
};

// Loads rows [first, first + kRows) of kBytes each into shared memory by C's threads that copy; what lies past
// `limit` rows or `end` bytes becomes zero.
template <class C, int kBytes, int kPitch, int kRows>
__device__ __forceinline__ void load_padded(uint32_t to, const void* from, int64_t stride, int first,
                                            int limit, int end) {
  constexpr int kStep = C::kCopiers / (kBytes / 16);
  static_assert(kRows % kStep == 0);
  if (C::kCopiers < C::kThreads && threadIdx.x >= C::kCopiers) return;
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
  static constexpr int kChunksK = C::kKRow / 16, kChunksV = C::kVRow / 16, kStepK = C::kCopiers / kChunksK,
                       kStepV = C::kCopiers / kChunksV;  // rows that all threads copy at once
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
    const int row_v = threadIdx.x / kChunksV, column_v = threadIdx.x % kChunksV * 16;
    inside = column_v < end;
    from_k = row_k * static_cast<uint32_t>(bytes_k) + column_k;
    from_v = row_v * static_cast<uint32_t>(bytes_v) + column_v;
    to_k = base + row_k * C::kKPitch + column_k, to_v = base + C::kVAt + row_v * C::kVPitch + column_v;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(from_k), "+r"(from_v), "+r"(to_k), "+r"(to_v));
  }
  // These begin to copy a part of v or of k of a stage.
  __device__ __forceinline__ void values(int stage, uint32_t slot, int part, int parts) const {
    static_assert(kPassesV * kStepV == C::kKeys);
    if (C::kCopiers < C::kThreads && threadIdx.x >= C::kCopiers) return;
    const char* from = v + stage * (bytes_v * C::kKeys);
#pragma unroll
    for (int j = 0; j < kPassesV / parts; ++j) {
      const int i = part * (kPassesV / parts) + j;
      device::copy_async(to_v + slot + i * kStepV * C::kVPitch, from + i * (kStepV * bytes_v) + from_v,
                         inside);
    }
  }
  __device__ __forceinline__ void keys(int stage, uint32_t slot, int part, int parts) const {
    static_assert(kPassesK * kStepK == C::kKeys);
    if (C::kCopiers < C::kThreads && threadIdx.x >= C::kCopiers) return;
    const char* from = k + stage * (bytes_k * C::kKeys);
#pragma unroll
    for (int j = 0; j < kPassesK / parts; ++j) {
      const int i = part * (kPassesK / parts) + j;
      device::copy_async(to_k + slot + i * kStepK * C::kKPitch, from + i * (kStepK * bytes_k) + from_k,
                         C::kCodes || inside);
    }
  }
  // The same for v of the stage before `stage`, and k of the one kAhead before it. There must be a stage before the
  // first one; what the first keys have no more of is copied once more in vain.
  __device__ __forceinline__ void next(int stage, uint32_t slot_v, uint32_t slot_k, int part,
                                       int parts) const {
    values(max(stage - 1, 0), slot_v, part, parts);
    keys(max(stage - C::kAhead, 0), slot_k, part, parts);
  }
};

// The same where K and V have equal strides, channels are C::kDim, and offsets fit 32 bits. A thread keeps its own offset
// from either tensor and its own place, and nothing else.
template <class C>
struct TwinCopies {
  static constexpr int kChunks = C::kKRow / 16, kStep = C::kThreads / kChunks, kPasses = C::kKeys / kStep;
  uint32_t from, to;

  // Where K's first stage begins in shared memory.
  __device__ __forceinline__ explicit TwinCopies(uint32_t base)
      : to(base + threadIdx.x / kChunks * C::kKPitch + threadIdx.x % kChunks * 16) {}
  // How far from the tensors' beginning the stage begins that is copied next, and the length of a row, in bytes.
  __device__ __forceinline__ void begin(uint32_t at, uint32_t row) {
    from = at + threadIdx.x / kChunks * row + threadIdx.x % kChunks * 16;
  }
  __device__ __forceinline__ void copy(const void* k, const void* v, uint32_t row, int part,
                                       int parts) const {
    static_assert(C::kCopiers == C::kThreads && C::kKRow == C::kVRow && kPasses * kStep == C::kKeys);
#pragma unroll
    for (int j = 0; j < kPasses / parts; ++j) {
      const int i = part * (kPasses / parts) + j;
      const uint32_t at = from + i * (kStep * row);
      device::copy_async(to + i * kStep * C::kKPitch, static_cast<const char*>(k) + at, true);
      device::copy_async(to + C::kVAt + i * kStep * C::kVPitch, static_cast<const char*>(v) + at, true);
    }
  }
};

// How many parts of a stage, with four steps each, the compiler writes out: all on Hopper; elsewhere that takes too
// many registers, one.
template <class C>
#if __CUDA_ARCH__ / 100 == 9
constexpr int kPartsAtOnce = C::kParts;
#else
constexpr int kPartsAtOnce = 1;
#endif

// Loads a block's queries, rows of C::kKRow bytes, into registers.
template <class C, int kChunks>
__device__ __forceinline__ void load_queries(uint32_t (&q)[2][kChunks][4], const void* from, int64_t bytes,
                                             int limit, int end, int first, const BytePlaces<C>& at) {
  load_padded<C, C::kKRow, C::kKPitch, C::kRows>(at.base, from, bytes, first, limit, end);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const uint32_t mine = at.q + (threadIdx.x / 32) * 32 * C::kKPitch;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int c = 0; c < kChunks; ++c) device::load_tiles(q[m][c], mine + c * 32 + m * 16 * C::kKPitch);
  __syncthreads();
}

}  // namespace tachy::ops::flash
