// Flash attention of many keys in bf16, for every GPU since sm_80: out = softmax(q·kᵀ)·v without masks or
// biases. It is organised like flash8_sm80.cuh, with which it shares how rows end and how K and V reach shared
// memory: a warp owns 32 queries, which it keeps in registers, and takes 16 keys at a time.
//
// A row subtracts the largest of the first 16 scores that it meets. bf16 weights and float32 sums have room for
// 2^100 of growth. Rows whose sums outgrow it are noted, and another launch computes their blocks again by
// flash_sm80.cuh.
#pragma once

#include "ops/attention/flash8_rows_sm80.cuh"

namespace tachy::ops::flash {

template <int kKeys_, int kWarps_ = 8, int kDim_ = 128, int kBlocks_ = 1>
struct LongTile {
  static constexpr bool kHalf = false, kCodes = false, kScalesV = false;
  static constexpr int kDim = kDim_, kBlocks = kBlocks_, kWarps = kWarps_;
  static constexpr int kCopiers = kWarps == 12 ? 256 : kWarps * 32, kRows = kWarps * 32,
                       kThreads = kWarps * 32;
  static constexpr int kKeys = kKeys_, kSteps = kKeys / 16, kParts = kKeys / 64, kCopies = kKeys / 32,
                       kAhead = 1;
  static constexpr int kKRow = 2 * kDim, kVRow = kKRow, kKPitch = kKRow + 16, kVPitch = kKPitch;
  static constexpr uint32_t kKBytes = kKeys * kKPitch, kVBytes = kKeys * kVPitch;
  static constexpr uint32_t kVAt = 2 * kKBytes, kStagesEnd = kVAt + 2 * kVBytes, kOutBytes = kRows * kKPitch;
  static constexpr uint32_t kRowsAt = kStagesEnd > kOutBytes ? kStagesEnd : kOutBytes;
  static constexpr size_t kSharedBytes = kRowsAt + kRows * sizeof(float2);
  static constexpr float kLeastSum = 0, kMostSum = 0x1p100f;
};

using LongScores = float[2][2][4];

template <class C>
struct LongWarp {
  uint32_t q[2][C::kDim / 16][4];          // 32 queries
  float o[2][C::kDim / 8][4], ones[2][4];  // sums of weights times v, and of weights
  float minus[4];                          // an exponent of row g + 8·r is score·factor + minus[r]

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < C::kDim; ++i) o[i / (C::kDim / 2)][i / 4 % (C::kDim / 8)][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) ones[i / 4][i % 4] = 0;
  }
  __device__ __forceinline__ void scores(LongScores& s, uint32_t k_address) const {
#pragma unroll
    for (int i = 0; i < 16; ++i) s[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
    for (int c = 0; c < C::kDim / 16; ++c) {
      uint32_t b[4];
      device::load_tiles(b, k_address + c * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) add_bf16(s[i / 2][i % 2], q[i / 2][c], b[i % 2 * 2], b[i % 2 * 2 + 1]);
    }
  }
  // Subtracts the largest of the first scores.
  __device__ __forceinline__ void begin(const LongScores& s, float factor) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float most = -INFINITY;
#pragma unroll
      for (int i = 0; i < 4; ++i) most = fmaxf(most, s[r >> 1][i / 2][(r & 1) * 2 + i % 2]);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      minus[r] = -fmaxf(most, __shfl_xor_sync(~0u, most, 2)) * factor;
    }
  }
  __device__ __forceinline__ static void mask(LongScores& s, int present) {
    const int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i / 4 % 2 * 8 + column + i % 2 >= present) s[i / 8][i / 4 % 2][i % 4] = -INFINITY;
  }
  __device__ __forceinline__ void weigh(Weights& w, const LongScores& s, int r, int n, float factor) const {
    float e[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float score = s[r >> 1][n][(r & 1) * 2 + c];
      e[c] = power_of_two(fmaf(score, factor, minus[r]));
    }
    w[r >> 1][n * 2 + (r & 1)] = pack_weights<false>(e[0], e[1]);
  }
  __device__ __forceinline__ void step(uint32_t k_address, uint32_t v_address, float factor, bool never,
                                       auto&& copy) {
    LongScores s;
    Weights w;
    scores(s, k_address);
    part(never);
#pragma unroll
    for (int i = 0; i < 8; ++i) weigh(w, s, i / 2, i % 2, factor);
    add_weighted<C>(o, ones, w, v_address, never, copy);
    if (C::kKeys == 64) part(never);  // in larger stages the next scores may begin earlier
  }
};

// Takes the first stage, in which the keys may end.
template <class C>
__device__ __forceinline__ void first_stage(LongWarp<C>& work, int present, float factor, bool never,
                                            const BytePlaces<C>& at) {
  LongScores s;
  Weights w;
  work.clear();
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    work.scores(s, at.k + t * 16 * C::kKPitch);
    work.mask(s, present - t * 16);
    if (t == 0) work.begin(s, factor);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s, i / 2, i % 2, factor);
    add_weighted<C>(work.o, work.ones, w, at.v + t * 16 * C::kVPitch, never, [] {});
  }
}

// grid [query tiles, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    long_attention_kernel(const ByteParams p, float factor) {
  using T = __nv_bfloat16;
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, batch = bh / p.heads, head = bh % p.heads;
  const int first = blockIdx.x * C::kRows, warp = threadIdx.x / 32, first_row = first + warp * 32;
  const int lk = p.to.lk, end = p.to.d * 2;
  int stage = (lk - 1) / C::kKeys;
  const BytePlaces<C> at(device::shared_address(shared));
  LongWarp<C> work;
  load_queries(work.q, static_cast<const T*>(p.to.q) + batch * p.to.qs.batch + head * p.to.qs.head,
               p.to.qs.row * 2, p.to.lq, end, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;
  const T* k = static_cast<const T*>(p.to.k) + batch * p.to.ks.batch + head * p.to.ks.head;
  const T* v = static_cast<const T*>(p.to.v) + batch * p.to.vs.batch + head * p.to.vs.head;
  load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base, k, p.to.ks.row * 2, stage * C::kKeys, lk, end);
  load_padded<C, C::kVRow, C::kVPitch, C::kKeys>(at.base + C::kVAt, v, p.to.vs.row * 2, stage * C::kKeys, lk,
                                                 end);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const StageCopies<C> copies(k, p.to.ks.row * 2, v, p.to.vs.row * 2, end, at.base);
  if (stage > 0) copies.next(stage, C::kVBytes, C::kKBytes, 0, 1);
  device::commit_copies();

  first_stage<C>(work, lk - stage * C::kKeys, factor, p.never, at);
  uint32_t now = C::kKBytes;
#pragma unroll 1
  for (--stage; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
#pragma unroll(kPartsAtOnce <C>)
    for (int part = 0; part < C::kParts; ++part) {
      const uint32_t k_at = at.k + now + part * 64 * C::kKPitch, v_at = at.v + now + part * 64 * C::kVPitch;
#pragma unroll
      for (int t = 0; t < 4; ++t)
        work.step(k_at + t * 16 * C::kKPitch, v_at + t * 16 * C::kVPitch, factor, p.never, [&] {
          if (part * 4 + t < C::kCopies)
            copies.next(stage, C::kKBytes - now, C::kKBytes - now, part * 4 + t, C::kCopies);
        });
    }
    device::commit_copies();
    now = C::kKBytes - now;
  }
  device::wait_copies<0>();
  __syncthreads();  // the stages are about to be overwritten
#pragma unroll
  for (int r = 0; r < 4; ++r)
    if ((threadIdx.x & 3) == 0) rows[(threadIdx.x & 31) / 4 + 8 * r] = make_float2(0, work.minus[r]);
  __syncwarp();
  finish_rows<C>(work.o, work.ones, p, bh, first_row, rows, shared);
}

}  // namespace tachy::ops::flash
