// Flash attention with q·kᵀ in 8 bits, for every GPU since sm_80: out = softmax(q·kᵀ)·v. flash8_codes.cuh
// prepares its input:
//   q, k   int8, after a Hadamard transform; k without its mean. q has a scale per token, k one per 128
//          tokens; their product turns the integer q·k into the exponent of two
//   v      as it is
//
// A warp owns 32 queries, as in flash_sm80.cuh, and keeps their codes in registers. It takes 16 keys at a
// time, in a pipeline of three: while the tensor cores add the weights of 16 keys times v and multiply q with
// 16 other keys, it turns the scores of the keys between them into weights. K and V pass through three stages
// of 64 keys filled by cp.async: one is being filled, and the pipeline spans two.
//
// A row subtracts the largest of the first 16 scores that it meets. bf16 weights and float32 sums have room for
// 2^100 of growth, so no later step looks for its largest score. The last keys come first, so that only the
// first stage can meet the end of the keys.
//
// As a guard, three kinds of rows are noted: those whose scores 8 bits cannot tell apart (q's scale times k's
// largest is beyond kCoarsest), those of heads whose codes are not finite (Head8::broken), and those whose sum
// is not between 0 and 2^100. A repairing launch computes the blocks that have such rows again in bf16.
#pragma once

#include "device/tile_sm80.cuh"
#include "ops/attention/flash8_codes.cuh"
#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

struct ByteParams {
  Params to;  // of the whole op
  const int8_t *q, *k;
  const float* q_scales;   // [B·H, Lq], scales for exponents of two
  const float* q_offsets;  // [B·H, Lq], if there is an lse: what k's mean adds to a row's exponents
  const float* k_scales;   // [B·H, blocks of 128 keys]
  const Head8* about;      // [B·H]
  uint8_t* bad;            // [B·H, query tiles, warps of a tile]: which must be computed again
  unsigned long long *asked, *again;  // count groups of 16 queries (cuda/attention_tally.h)
  int heads;
  bool never = false;
};

template <int kWarps_, bool kOnes_ = false, int kEarly_ = 3, bool kPart_ = true, bool kTwo_ = false>
struct ByteTile {
  using T = __nv_bfloat16;
  static constexpr int kWarps = kWarps_, kRows = kWarps * 32, kThreads = kWarps * 32;
  static constexpr int kKeys = 64, kTurns = kKeys / 16, kSlots = 3;
  // Rows in shared memory are 16 bytes longer than their data, so that the eight rows that ldmatrix reads at
  // once lie in different banks, and all addresses of a lane are one register plus a constant.
  static constexpr int kKPitch = 128 + 16, kVPitch = 256 + 16;
  static constexpr uint32_t kKBytes = kKeys * kKPitch, kVBytes = kKeys * kVPitch;
  static constexpr bool kOnes = kOnes_, kPart = kPart_, kTwo = kTwo_;
  static constexpr int kEarly = kEarly_;
  static constexpr uint32_t kSlotBytes = kKBytes + kVBytes, kRowsAt = kSlots * kSlotBytes;  // float2 of each row
  static constexpr size_t kSharedBytes = kRowsAt + kRows * sizeof(float2);
  static_assert(kRows * 256 <= kRowsAt);  // the output passes through the stages
};

constexpr float kMostSum = 0x1p100f;

// s = kMagicBits + a·b
__device__ __forceinline__ void begin_scores(int32_t (&s)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagicBits));
#endif
}

// The scores of 16 keys, as floats of 1.5·2^23 plus the integer q·k.
using ByteScores = int32_t[2][2][4];
using Weights = uint32_t[2][4];

// The instructions of the loop; volatile, so that the compiler leaves them in the order that is written.
__device__ __forceinline__ float power(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t r;
#if __CUDA_ARCH__ >= 800
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#endif
  return r;
}
__device__ __forceinline__ void add_to(float& sum, float x) {
  asm volatile("add.f32 %0, %0, %1;" : "+f"(sum) : "f"(x));
}
__device__ __forceinline__ void multiply_bytes(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ __forceinline__ void multiply_halves(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

template <class C>
struct ByteWarp {
  uint32_t q[2][4][4];  // the codes of 32 queries
  float o[2][16][4], ones[2][4];
  // For rows g, g + 8, g + 16, g + 24: this lane's part of the sum of weights; an exponent is
  // score·factor + minus.
  float sum[4], factor[4], minus[4];

  // Adds to the scores of 16 keys the quarter `c` of the channels; the first begins them.
  __device__ __forceinline__ void multiply(ByteScores& s, int m, int c, const uint32_t (&b)[4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (c == 0)
        begin_scores(s[m][n], q[m][c], b[2 * n], b[2 * n + 1]);
      else
        multiply_bytes(s[m][n], q[m][c], b[2 * n], b[2 * n + 1]);
  }
  __device__ __forceinline__ void scores(ByteScores& s, uint32_t k_address) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      uint32_t b[4];
      device::load_tiles(b, k_address + c * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) multiply(s, m, c, b);
    }
  }
  // Turns two scores of row r into weights.
  __device__ __forceinline__ void weigh(Weights& w, const ByteScores& s, int r, int n) {
    float e[2];
#pragma unroll
    for (int c = 0; c < 2; ++c)
      e[c] = power(fmaf(__int_as_float(s[r >> 1][n][(r & 1) * 2 + c]), factor[r], minus[r]));
    if constexpr (!C::kOnes) add_to(sum[r], e[0]), add_to(sum[r], e[1]);
    w[r >> 1][n * 2 + (r & 1)] = pack(e[0], e[1]);
  }
  // Adds products of 16 keys' weights with the channels 16·n to 16·n + 15 of v.
  __device__ __forceinline__ void add(const Weights& w, int n, uint32_t v_address) {
    uint32_t b[4];
    device::load_tiles_transposed(b, v_address + n * 32);
    if (C::kOnes && n == 0)
#pragma unroll
      for (int m = 0; m < 2; ++m) multiply_halves(ones[m], w[m], 0x3f803f80u, 0x3f803f80u);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      multiply_halves(o[m][2 * n], w[m], b[0], b[1]);
      multiply_halves(o[m][2 * n + 1], w[m], b[2], b[3]);
    }
  }
  __device__ __forceinline__ void add(const Weights& w, uint32_t v_address) {
#pragma unroll
    for (int n = 0; n < 8; ++n) add(w, n, v_address);
  }
  __device__ __forceinline__ void weigh(Weights& w, const ByteScores& s) {
#pragma unroll
    for (int i = 0; i < 8; ++i) weigh(w, s, i / 2, i % 2);
  }
  // Sets what turns scores into exponents.
  __device__ __forceinline__ void use_scale(const float2* rows, float k_scale) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float2 row = rows[(threadIdx.x & 31) / 4 + 8 * r];
      factor[r] = row.x * k_scale, minus[r] = fmaf(-kMagic, factor[r], row.y);
    }
  }
  // Starts `next`, adds the products of `old`, and turns `now` into weights, which take the place of `old`.
  __device__ __forceinline__ void turn(Weights& old, ByteScores& now, ByteScores& next, uint32_t k_address,
                                       uint32_t v_address, bool never) {
    if constexpr (C::kTwo) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        uint32_t b[4];
        device::load_tiles(b, k_address + c * 32);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply(next, m, c, b);
          weigh(old, now, c, m);
        }
      }
      part(never);
      add(old, v_address);
      part(never);
      return;
    }
    Weights w;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      uint32_t b[4];
      device::load_tiles(b, k_address + c * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) multiply(next, m, c, b);
#pragma unroll
      for (int i = c * C::kEarly / 4; i < (c + 1) * C::kEarly / 4; ++i) weigh(w, now, i / 2, i % 2);
    }
    part(never);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      add(old, n, v_address);
#pragma unroll
      for (int i = C::kEarly + n * (8 - C::kEarly) / 8; i < C::kEarly + (n + 1) * (8 - C::kEarly) / 8; ++i)
        weigh(w, now, i / 2, i % 2);
    }
    part(never);
#pragma unroll
    for (int i = 0; i < 8; ++i) old[i / 4][i % 4] = w[i / 4][i % 4];
  }
  // Keeps the compiler from mixing the instructions before and after it.
  __device__ __forceinline__ static void part(bool never) {
    if constexpr (C::kPart)
      if (never) asm volatile("nanosleep.u32 20;" ::: "memory");
  }
  // Takes scores of keys that are not there out of a softmax.
  __device__ __forceinline__ static void mask(ByteScores& s, int present) {
    const int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i / 4 % 2 * 8 + column + i % 2 >= present) s[i / 8][i / 4 % 2][i % 4] = 0xff800000;  // -infinity
  }
};

// Where a lane finds fragments: places in rows of 128 or 256 bytes, for A or B.
template <class C>
struct BytePlaces {
  uint32_t base, a128, b128, a256;
  __device__ explicit BytePlaces(uint32_t shared) : base(shared) {
    const int lane = threadIdx.x & 31, row_a = lane & 15, half_a = lane >> 4,
              row_b = (lane & 7) + ((lane >> 4) << 3), half_b = (lane >> 3) & 1;
    a128 = base + row_a * C::kKPitch + half_a * 16;
    b128 = base + row_b * C::kKPitch + half_b * 16;
    a256 = base + C::kKBytes + row_a * C::kVPitch + half_a * 16;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+r"(b128), "+r"(a256));
  }
};

// Loads rows [first, first + kRows) of kBytes each into shared memory; what lies past `limit` rows or `end`
// bytes becomes zero.
template <int kBytes, int kPitch, int kRows, int kThreads>
__device__ __forceinline__ void load_padded(uint32_t to, const void* from, int64_t stride, int first, int limit,
                                            int end) {
  constexpr int kChunks = kBytes / 16, kStep = kThreads / kChunks;
  const int column = threadIdx.x % kChunks * 16, row = threadIdx.x / kChunks;
  const char* p = static_cast<const char*>(from) + (first + row) * stride + column;
  uint32_t address = to + row * kPitch + column;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const bool present = column < end && first + row + i * kStep < limit;
    device::copy_async(address, present ? p : from, present);
    p += kStep * stride, address += kStep * kPitch;
  }
}

// Copies whole stages of K and V, the last keys first.
template <class C>
struct StageCopies {
  static constexpr int kStepK = C::kThreads / 8, kStepV = C::kThreads / 16;  // rows that all threads copy at once
  const char *k, *v;
  int64_t step, back;
  uint32_t to_k, to_v;
  bool inside;

  __device__ __forceinline__ StageCopies(const int8_t* k_from, const typename C::T* v_from, const Params& p,
                                         int stage, uint32_t base) {
    const int row_k = threadIdx.x / 8, row_v = threadIdx.x / 16, column_k = threadIdx.x % 8 * 16,
              column_v = threadIdx.x % 16 * 16;
    step = p.vs.row * 2 * kStepV, back = p.vs.row * 2 * (2 * C::kKeys - kStepV), inside = column_v < p.d * 2;
    k = reinterpret_cast<const char*>(k_from) + int64_t{(stage - 2) * C::kKeys + row_k} * 128 + column_k;
    v = reinterpret_cast<const char*>(v_from) + ((stage - 1) * C::kKeys + row_v) * p.vs.row * 2 + column_v;
    to_k = base + row_k * C::kKPitch + column_k, to_v = base + C::kKBytes + row_v * C::kVPitch + column_v;
    // Computing these again in the loop would take more time than keeping them.
    asm volatile("" : "+l"(k), "+l"(v), "+r"(to_k), "+r"(to_v), "+l"(step), "+l"(back));
  }
  // Begins to copy v of the stage before `stage`, and k of the one before that.
  __device__ __forceinline__ void next(int stage, uint32_t slot_v, uint32_t slot_k) {
    if (stage >= 1) {
      const uint32_t to = to_v + slot_v;
#pragma unroll
      for (int i = 0; i < C::kKeys / kStepV; ++i) {
        device::copy_async(to + i * kStepV * C::kVPitch, v, inside);
        v += i + 1 < C::kKeys / kStepV ? step : -back;
      }
    }
    if (stage >= 2) {
      const uint32_t to = to_k + slot_k;
#pragma unroll
      for (int i = 0; i < C::kKeys / kStepK; ++i)
        device::copy_async(to + i * kStepK * C::kKPitch, k + i * kStepK * 128, true);
      k -= C::kKeys * 128;
    }
    device::commit_copies();
  }
};

// Loads the codes of a block's queries into registers.
template <class C>
__device__ __forceinline__ void load_queries(uint32_t (&q)[2][4][4], const ByteParams& p, int bh, int first,
                                             const BytePlaces<C>& at) {
  load_padded<128, C::kKPitch, C::kRows, C::kThreads>(at.base, p.q + int64_t{bh} * p.to.lq * 128, 128, first,
                                                      p.to.lq, 128);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const uint32_t from = at.a128 + (threadIdx.x / 32) * 32 * C::kKPitch;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int c = 0; c < 4; ++c) device::load_tiles(q[m][c], from + c * 32 + m * 16 * C::kKPitch);
  __syncthreads();
}

// What a row subtracts: its largest score of the first 16 keys, as an exponent.
template <class C>
__device__ __forceinline__ void begin_rows(ByteWarp<C>& work, const ByteScores& s, const ByteParams& p, int bh,
                                           int first_row, float k_scale, float2* rows) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float most = -INFINITY;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) most = fmaxf(most, __int_as_float(s[r >> 1][n][(r & 1) * 2 + c]));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const int row = (lane >> 2) + 8 * r;
    const float scale = p.q_scales[int64_t{bh} * p.to.lq + min(first_row + row, p.to.lq - 1)];
    if ((lane & 3) == 0) rows[row] = make_float2(scale, (kMagic - most) * scale * k_scale);
    work.sum[r] = 0, work.ones[r / 2][r % 2 * 2] = work.ones[r / 2][r % 2 * 2 + 1] = 0;
  }
  __syncwarp();
}

// Divides, and stores lse and the output, which passes through the stages.
template <class C>
__device__ __forceinline__ void finish_rows(ByteWarp<C>& work, const ByteParams& p, int bh, int first_row,
                                            const float2* rows, char* shared) {
  using T = typename C::T;
  const Params& to = p.to;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, batch = bh / p.heads, head = bh % p.heads;
  const float coarsest = __uint_as_float(p.about[bh].k_coarsest);
  bool bad = p.about[bh].broken;
  T* tile = reinterpret_cast<T*>(shared) + warp * 32 * 128;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int in_warp = (lane >> 2) + 8 * r, i = first_row + in_warp;
    const float2 row = rows[in_warp];
    float sum = C::kOnes ? work.ones[r >> 1][(r & 1) * 2] : work.sum[r];
    if constexpr (!C::kOnes) sum += __shfl_xor_sync(~0u, sum, 1), sum += __shfl_xor_sync(~0u, sum, 2);
    bad |= !(row.x * coarsest <= kCoarsest) || !(sum > 0 && sum < kMostSum);
    if (to.lse && (lane & 3) == 0 && i < to.lq)
      to.lse[batch * to.lse_batch + head * to.lse_head + i] =
          (p.q_offsets[int64_t{bh} * to.lq + i] - row.y + __log2f(sum)) * kLn2;
    const float inverse = 1 / sum;
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      auto* at = reinterpret_cast<uint32_t*>(tile + in_warp * 128 + ((n ^ (in_warp & 7)) << 3));
      at[lane & 3] = device::pack_pair<T>(work.o[r >> 1][n][(r & 1) * 2] * inverse,
                                          work.o[r >> 1][n][(r & 1) * 2 + 1] * inverse);
    }
  }
  bad = __any_sync(~0u, bad);
  if (lane == 0) p.bad[(int64_t{bh} * gridDim.x + blockIdx.x) * C::kWarps + warp] = bad;
  __syncwarp();
  T* out = static_cast<T*>(to.out) + batch * to.os.batch + head * to.os.head;
  const int column = lane % 16;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int row = lane / 16 + i * 2;
    if (first_row + row < to.lq && column * 8 < to.d)
      *reinterpret_cast<uint4*>(out + (first_row + row) * to.os.row + column * 8) =
          *reinterpret_cast<const uint4*>(tile + row * 128 + ((column ^ (row & 7)) << 3));
  }
}

// grid [query tiles, B·H]
template <class C>
__global__ void __launch_bounds__(C::kThreads, 8 / C::kWarps) byte_attention_kernel(const ByteParams p) {
  using T = typename C::T;
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, first = blockIdx.x * C::kRows, warp = threadIdx.x / 32;
  const int first_row = first + warp * 32, lk = p.to.lk, stages = (lk + C::kKeys - 1) / C::kKeys;
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p, bh, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;

  const int8_t* k = p.k + int64_t{bh} * lk * 128;
  const T* v = static_cast<const T*>(p.to.v) + bh / p.heads * p.to.vs.batch + bh % p.heads * p.to.vs.head;
  int stage = stages - 1;
  load_padded<128, C::kKPitch, C::kKeys, C::kThreads>(at.base, k, 128, stage * C::kKeys, lk, 128);
  load_padded<256, C::kVPitch, C::kKeys, C::kThreads>(at.base + C::kKBytes, v, p.to.vs.row * 2,
                                                      stage * C::kKeys, lk, p.to.d * 2);
  if (stage > 0)
    load_padded<128, C::kKPitch, C::kKeys, C::kThreads>(at.base + C::kSlotBytes, k, 128,
                                                        (stage - 1) * C::kKeys, lk, 128);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  StageCopies<C> copies(k, v, p.to, stage, at.base);

  const float* k_scales = p.k_scales + int64_t{bh} * ((lk + 127) / 128);
  float k_scale = k_scales[stage / 2];
  ByteScores s[2];
  Weights w = {};
#pragma unroll
  for (int i = 0; i < 128; ++i) work.o[i / 64][i / 4 % 16][i % 4] = 0;
  copies.next(stage, C::kSlotBytes, 2 * C::kSlotBytes);
  // The first stage, in which the keys may end; its last products are left to the next one.
#pragma unroll 1
  for (int t = 0; t < C::kTurns; ++t) {
    work.scores(s[0], at.b128 + t * 16 * C::kKPitch);
    work.mask(s[0], lk - stage * C::kKeys - t * 16);
    if (t == 0) begin_rows(work, s[0], p, bh, first_row, k_scale, rows);
    work.use_scale(rows, k_scale);
    if (t > 0) work.add(w, at.a256 + (t - 1) * 16 * C::kVPitch);
    work.weigh(w, s[0]);
  }
  if (C::kTwo) work.add(w, at.a256 + 48 * C::kVPitch);
  work.scores(s[0], at.b128 + C::kSlotBytes);
  uint32_t last = 0, slot = C::kSlotBytes, next = 2 * C::kSlotBytes;
  k_scale = k_scales[max(--stage, 0) / 2];
#pragma unroll 1
  for (; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
    copies.next(stage, next, last);
    work.use_scale(rows, k_scale);
    k_scale = k_scales[max(stage - 1, 0) / 2];
#pragma unroll
    for (int t = 0; t < C::kTurns; ++t)
      work.turn(w, s[t % 2], s[1 - t % 2],
                at.b128 + (t < C::kTurns - 1 ? slot + (t + 1) * 16 * C::kKPitch : next),
                at.a256 + (C::kTwo ? slot + t * 16 * C::kVPitch
                                   : t > 0 ? slot + (t - 1) * 16 * C::kVPitch : last + 48 * C::kVPitch), p.never);
    const uint32_t free_slot = last;
    last = slot, slot = next, next = free_slot;
  }
  if (!C::kTwo) work.add(w, at.a256 + last + 48 * C::kVPitch);
  device::wait_copies<0>();
  __syncthreads();  // the stages are about to be overwritten
  finish_rows(work, p, bh, first_row, rows, shared);
}

}  // namespace tachy::ops::flash
