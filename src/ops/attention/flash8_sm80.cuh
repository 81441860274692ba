// Flash attention with q·kᵀ in 8 bits, for every GPU since sm_80: out = softmax(q·kᵀ)·v. flash8_codes.cuh and
// flash8_quantize_sm80.cuh prepare its input:
//   q, k   int8, after a Hadamard transform; k without its mean. q has a scale per token, k one per 128
//          tokens; their product turns the integer q·k into the exponent of two
//   v      as it is, for GPUs that multiply bf16 with float32 sums at the full rate; otherwise (kHalf) f16 with
//          a scale per channel. Then the 16 products of a step add up in f16, and these sums in float32
//
// A warp owns 32 queries, as in flash_sm80.cuh, and keeps their codes in registers. It takes 16 keys at a time:
// while the tensor cores multiply q with the next 16 keys it turns the scores of these into weights, and then
// multiplies the weights with v. A tensor core loses time where int8 and 16-bit products alternate, so the two
// are kept apart (part), for which the compiler sees no reason. The weights' sum is a product with
// ones. K and V pass through stages filled by cp.async, a part of a stage in each step.
//
// A row subtracts the largest of the first 16 scores that it meets, and no later step looks for its largest.
// The last keys come first, so that only the first stage can meet the end of the keys. bf16 weights and
// float32 sums have room for 2^100 of growth. f16 weights have room for 2^24: they begin at 2^-8, and those
// below 2^-14 lose precision.
//
// As a guard, three kinds of rows are noted: those whose scores 8 bits cannot tell apart (q's scale times k's
// largest is beyond kCoarsest), those of heads whose values do not fit (Head8::broken), and those whose sums
// have outgrown their room. A repairing launch computes the blocks that have such rows again in bf16.
#pragma once

#include "device/tile_sm80.cuh"
#include "ops/attention/flash8_head.cuh"
#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

struct ByteParams {
  Params to;                  // of the whole op
  const int8_t *q, *k;        // [B·H, L, kDim]
  const void* v;              // [B·H, Lk, kDim]: f16 with kHalf; bf16 of joined ranges; otherwise unused
  const float* q_scales;      // [B·H, Lq], scales for exponents of two
  const float* q_offsets;     // [B·H, Lq], if there is an lse: what k's mean adds to a row's exponents
  const float* k_scales;      // [B·H, blocks of 128 keys]
  const float* v_scales;      // [B·H, 128], if v has them
  const Head8* about;         // [B·H]
  uint8_t* bad;               // [B·H, query tiles, kWarps]: whether a warp's rows are computed again
  unsigned long long* asked;  // counts groups of 16 queries (cuda/attention_tally.h)
  int heads;
  bool never = false;  // part
};

// kDim is 64 or 128. With 64 a warp needs fewer registers, so that kBlocks blocks, or a block of 12 warps, can be
// on a multiprocessor.
template <int kKeys_, bool kHalf_, int kWarps_ = 8, int kDim_ = 128, int kBlocks_ = 1>
struct ByteTile {
  static constexpr bool kHalf = kHalf_, kCodes = true, kScalesV = kHalf;
  static constexpr int kDim = kDim_, kWarps = kWarps_, kRows = kWarps * 32, kThreads = kWarps * 32;
  // Two thirds of 12 warps copy, since a stage's rows can be shared out evenly among powers of two only.
  static constexpr int kBlocks = kBlocks_, kCopiers = kWarps == 12 ? 256 : kThreads;
  static constexpr int kKeys = kKeys_, kSteps = kKeys / 16;                           // of a stage
  static constexpr int kParts = kKeys / 64, kPassesK = kKeys * kDim / 16 / kCopiers;  // of a stage
  static constexpr int kCopies =
      kKeys / 32 < kPassesK ? kKeys / 32 : kPassesK;  // in how many steps it is copied
  // Rows in shared memory are 16 bytes longer than their data, so that the eight rows that ldmatrix reads at
  // once lie in different banks, and all addresses of a lane are one register plus a constant.
  static constexpr int kAhead = 2, kKRow = kDim, kVRow = 2 * kDim, kKPitch = kKRow + 16, kVPitch = kVRow + 16;
  static constexpr uint32_t kKBytes = kKeys * kKPitch, kVBytes = kKeys * kVPitch;
  // One stage of K is multiplied, one begins and one is filled; one of V is multiplied and one is filled. The
  // output passes through the same memory. Then comes a float2 of each row.
  static constexpr uint32_t kVAt = 3 * kKBytes, kStagesEnd = kVAt + 2 * kVBytes, kOutBytes = kRows * kVRow;
  static constexpr uint32_t kRowsAt = kStagesEnd > kOutBytes ? kStagesEnd : kOutBytes;
  static constexpr size_t kSharedBytes = kRowsAt + kRows * sizeof(float2);
  static constexpr float kFirst = kHalf ? -8 : 0;  // the exponent that the largest of the first scores gets
  static constexpr float kLeastSum = 0, kMostSum = kHalf ? 0x1p40f : 0x1p100f;
};

// The scores of 16 keys, as floats of 1.5·2^23 plus the integer q·k; and their weights, as an A-fragment.
using ByteScores = int32_t[2][2][4];
using Weights = uint32_t[2][4];

// The instructions of the loop. They are volatile, so that the compiler leaves them in the order written.
// s = kMagicBits + a·b
__device__ __forceinline__ void begin_scores(int32_t (&s)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(kMagicBits));
#endif
}
__device__ __forceinline__ void add_scores(int32_t (&s)[4], const uint32_t (&a)[4], uint32_t b0,
                                           uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ __forceinline__ void add_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ __forceinline__ void add_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  uint32_t low, high;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%8};"
               : "=r"(low), "=r"(high)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
  const float2 first = device::unpack_pair<__half>(low), second = device::unpack_pair<__half>(high);
  c[0] += first.x, c[1] += first.y, c[2] += second.x, c[3] += second.y;
#endif
}
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
template <bool kHalf>
__device__ __forceinline__ uint32_t pack_weights(float low, float high) {
  uint32_t r = 0;
#if __CUDA_ARCH__ >= 800
  if constexpr (kHalf)
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else
    asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
#endif
  return r;
}

// Keeps the compiler from mixing the instructions before and after it, by a branch that is never taken.
__device__ __forceinline__ void part(bool never) {
  if (never) asm volatile("nanosleep.u32 20;" ::: "memory");
}

// o += w·v for 16 keys, whose weights `ones` adds up. copy() is called in between.
template <class C>
__device__ __forceinline__ void add_weighted(float (&o)[2][C::kDim / 8][4], float (&ones)[2][4],
                                             const Weights& w, uint32_t v_address, bool never, auto&& copy) {
  constexpr uint32_t kOnes = C::kHalf ? 0x3c003c00u : 0x3f803f80u;
#pragma unroll
  for (int m = 0; m < 2; ++m)
    if constexpr (C::kHalf)
      device::mma<__half>(ones[m], w[m], kOnes, kOnes);
    else
      add_bf16(ones[m], w[m], kOnes, kOnes);
#pragma unroll
  for (int n = 0; n < C::kDim / 16; ++n) {
    uint32_t b[4];
    device::load_tiles_transposed(b, v_address + n * 32);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float(&to)[4] = o[i / 2][2 * n + i % 2];
      C::kHalf ? add_f16(to, w[i / 2], b[i % 2 * 2], b[i % 2 * 2 + 1])
               : add_bf16(to, w[i / 2], b[i % 2 * 2], b[i % 2 * 2 + 1]);
    }
    if (n == C::kDim / 32 - 1) copy();
    if (C::kHalf && n % 2 == 1) part(never);  // otherwise too many registers are taken at once
  }
}

// The values that a warp keeps in registers.
template <class C>
struct ByteWarp {
  uint32_t q[2][C::kDim / 32][4];          // the codes of 32 queries
  float o[2][C::kDim / 8][4], ones[2][4];  // sums of weights times v, and of weights
  float factor[4], minus[4];               // an exponent of row g + 8·r is score·factor[r] + minus[r]

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < C::kDim; ++i) o[i / (C::kDim / 2)][i / 4 % (C::kDim / 8)][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) ones[i / 4][i % 4] = 0;
  }
  // Sets what turns scores into exponents.
  __device__ __forceinline__ void use_scale(const float2* rows, float k_scale) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float2 row = rows[(threadIdx.x & 31) / 4 + 8 * r];
      factor[r] = row.x * k_scale, minus[r] = fmaf(-kMagic, factor[r], row.y);
    }
  }

  // Adds 32 of the channels to the scores of 16 keys; the first begins them.
  __device__ __forceinline__ void multiply(ByteScores& s, int m, int c, const uint32_t (&b)[4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (c == 0)
        begin_scores(s[m][n], q[m][c], b[2 * n], b[2 * n + 1]);
      else
        add_scores(s[m][n], q[m][c], b[2 * n], b[2 * n + 1]);
  }
  __device__ __forceinline__ void scores(ByteScores& s, uint32_t k_address) const {
#pragma unroll
    for (int c = 0; c < C::kDim / 32; ++c) {
      uint32_t b[4];
      device::load_tiles(b, k_address + c * 32);
      multiply(s, 0, c, b), multiply(s, 1, c, b);
    }
  }
  // Takes scores of keys that are not there out of the softmax.
  __device__ __forceinline__ static void mask(ByteScores& s, int present) {
    const int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i / 4 % 2 * 8 + column + i % 2 >= present) s[i / 8][i / 4 % 2][i % 4] = 0xff800000;  // -infinity
  }
  __device__ __forceinline__ static void mask_first(ByteScores& s, int absent) {
    const int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i / 4 % 2 * 8 + column + i % 2 < absent) s[i / 8][i / 4 % 2][i % 4] = 0xff800000;  // -infinity
  }

  // Turns two scores of row g + 8·r into weights.
  __device__ __forceinline__ void weigh(Weights& w, const ByteScores& s, int r, int n) const {
    float e[2];
#pragma unroll
    for (int c = 0; c < 2; ++c)
      e[c] = power_of_two(fmaf(__int_as_float(s[r >> 1][n][(r & 1) * 2 + c]), factor[r], minus[r]));
    w[r >> 1][n * 2 + (r & 1)] = pack_weights<C::kHalf>(e[0], e[1]);
  }

  // Starts the scores of the next 16 keys, turns those of `now` into weights, and adds their products with v.
  __device__ __forceinline__ void step(const ByteScores& now, ByteScores& next, uint32_t k_address,
                                       uint32_t v_address, bool never, auto&& copy) {
    constexpr int kWeighed = 128 / C::kDim;  // of the eight pairs of weights, after two products
    Weights w;
#pragma unroll
    for (int c = 0; c < C::kDim / 32; ++c) {
      uint32_t b[4];
      device::load_tiles(b, k_address + c * 32);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply(next, m, c, b);
#pragma unroll
        for (int i = (2 * c + m) * kWeighed; i < (2 * c + m + 1) * kWeighed; ++i) weigh(w, now, i / 2, i % 2);
      }
    }
    part(never);
    add_weighted<C>(o, ones, w, v_address, never, copy);
    part(never);
  }
};

}  // namespace tachy::ops::flash
