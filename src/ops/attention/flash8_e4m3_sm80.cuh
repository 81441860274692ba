// Flash attention with both products in 8 bits, for GPUs that multiply e4m3 by mma.sync (sm_89 and 120):
// out = softmax(q·kᵀ)·v. It is organised like flash8_sm80.cuh, with the same q and k. v and the weights are e4m3, v
// transposed with a scale per channel (flash8_quantize_sm90.cuh, whose order of keys makes a thread's weights of 16
// keys one register).
//
// A part is 64 keys: their weights fit 16 registers, and two products with them add up in the tensor core, which keeps
// about 13 bits. These sums are added to float32 totals. e4m3 ends at 448. A row's largest weight is 2^5 at the
// beginning. If one rounds to 448 the part's largest scores are looked for, the rows subtract more, and what they have
// is scaled; that is rare.
//
// The rows that are noted for the repairing launch are those of flash8_sm80.cuh, and those whose weights still do not
// fit, which only happens beside values that are not finite.
#pragma once

#include "device/e4m3.cuh"
#include "ops/attention/flash8_rows_sm80.cuh"

namespace tachy::ops::flash {

struct CodesTile {
  static constexpr bool kHalf = false, kCodes = true, kScalesV = true;
  static constexpr int kDim = 128, kWarps = 8, kRows = kWarps * 32, kThreads = kWarps * 32,
                       kCopiers = kThreads;
  static constexpr int kBlocks = 1, kKeys = 128,
                       kPart = 64;  // keys of a stage, which share k's scale, and of a part
  static constexpr int kKRow = 128, kKPitch = 128 + 16,
                       kVPitch = kKPitch;  // a row of v is a channel's 128 keys
  static constexpr uint32_t kKBytes = kKeys * kKPitch, kVBytes = kDim * kVPitch;
  static constexpr uint32_t kVAt = 2 * kKBytes, kStagesEnd = kVAt + 2 * kVBytes, kOutBytes = kRows * 2 * kDim;
  static constexpr uint32_t kRowsAt = kStagesEnd > kOutBytes ? kStagesEnd : kOutBytes;
  static constexpr size_t kSharedBytes = kRowsAt + kRows * sizeof(float2);
  static constexpr float kLeastSum = 0, kMostSum = 0x1p100f,
                         kLargest = 5;  // the exponent of a row's largest weight
};

__device__ __forceinline__ void add_e4m3(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 890
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm volatile("trap;");
#endif
}

struct CodesWarp : ByteWarp<CodesTile> {
  using C = CodesTile;
  uint32_t w[2][2][4];  // weights of a part: for each 16 rows and 32 keys an A-fragment

  // The weights of a part; returns bits whose highest are set where a weight is at e4m3's end.
  __device__ __forceinline__ uint32_t weigh_part(uint32_t k_address, int present) {
    uint32_t beyond = 0;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      ByteScores s;
      scores(s, k_address + t * 16 * C::kKPitch);
      if (present < C::kPart) mask(s, present - t * 16);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          e[i] =
              power_of_two(fmaf(__int_as_float(s[r >> 1][i / 2][(r & 1) * 2 + i % 2]), factor[r], minus[r]));
        const uint32_t four = device::pack_e4m3(e[0], e[1], e[2], e[3]);
        w[r >> 1][t / 2][t % 2 * 2 + (r & 1)] = four;
        beyond |= (four & 0x7f7f7f7fu) + 0x02020202u;  // 448 and NaN are 0x7e and 0x7f
      }
    }
    return beyond & 0x80808080u;
  }

  // Looks for the part's largest scores and lets rows subtract so much that their weights are at most 2^5. At the
  // beginning there is nothing to scale.
  __device__ __forceinline__ void subtract(uint32_t k_address, int present, float2* rows, float k_scale,
                                           bool first) {
    int most[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int t = 0; t < 4; ++t) {
      ByteScores s;
      scores(s, k_address + t * 16 * C::kKPitch);
      const int column = 2 * static_cast<int>(threadIdx.x & 3);
#pragma unroll
      for (int i = 0; i < 16; ++i)
        if (t * 16 + i / 4 % 2 * 8 + column + i % 2 < present) {
          int& row = most[i / 8 * 2 + i / 2 % 2];
          row = max(row, s[i / 8][i / 4 % 2][i % 4]);  // floats above 0 are in the order of their bits
        }
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      most[r] = max(most[r], __shfl_xor_sync(~0u, most[r], 1));
      most[r] = max(most[r], __shfl_xor_sync(~0u, most[r], 2));
      float2& row = rows[(threadIdx.x & 31) / 4 + 8 * r];
      const float to = (kMagic - __int_as_float(most[r])) * row.x * k_scale + C::kLargest;
      const float before = row.y, now = first ? to : fminf(before, to);
      __syncwarp();
      if ((threadIdx.x & 3) == 0) row.y = now;
      if (first) continue;
      const float less = power_of_two(now - before);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ones[r >> 1][(r & 1) * 2 + i] *= less;
#pragma unroll
        for (int n = 0; n < C::kDim / 8; ++n) o[r >> 1][n][(r & 1) * 2 + i] *= less;
      }
    }
    __syncwarp();
    use_scale(rows, k_scale);
  }

  // Adds the products of a part's weights with v, and the weights themselves.
  __device__ __forceinline__ void add_part(uint32_t v_address) {
    constexpr uint32_t kOnes = 0x38383838u;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float c[4] = {};
      add_e4m3(c, w[m][0], kOnes, kOnes), add_e4m3(c, w[m][1], kOnes, kOnes);
#pragma unroll
      for (int i = 0; i < 4; ++i) ones[m][i] += c[i];
    }
#pragma unroll
    for (int n = 0; n < C::kDim / 16; ++n) {
      uint32_t b[2][4];
      device::load_tiles(b[0], v_address + n * 16 * C::kVPitch);
      device::load_tiles(b[1], v_address + n * 16 * C::kVPitch + 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float c[4] = {};
        add_e4m3(c, w[i / 2][0], b[0][i % 2 * 2], b[0][i % 2 * 2 + 1]);
        add_e4m3(c, w[i / 2][1], b[1][i % 2 * 2], b[1][i % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < 4; ++j) o[i / 2][2 * n + i % 2][j] += c[j];
      }
    }
  }
};

// grid [query tiles, B·H]; v [B·H, 128, padded] in e4m3, where `padded` is a multiple of 128.
__global__ void __launch_bounds__(CodesTile::kThreads, 1)
    codes_attention_kernel(const ByteParams p, const uint8_t* v_codes, int padded) {
  using C = CodesTile;
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, first = blockIdx.x * C::kRows, warp = threadIdx.x / 32, lk = p.to.lk;
  const int first_row = first + warp * 32;
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  const BytePlaces<C> at(device::shared_address(shared));
  CodesWarp work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * C::kDim, C::kDim, p.to.lq, C::kDim, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;
  rows[threadIdx.x & 31] = make_float2(
      p.q_scales[int64_t{bh} * p.to.lq + min(first_row + static_cast<int>(threadIdx.x & 31), p.to.lq - 1)],
      0);
  __syncwarp();
  const int8_t* k = p.k + int64_t{bh} * lk * C::kDim;
  const uint8_t* v = v_codes + int64_t{bh} * C::kDim * padded;
  const auto fetch = [&](int stage, uint32_t slot_k, uint32_t slot_v) {
    load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base + slot_k, k, C::kDim, stage * C::kKeys, lk,
                                                   C::kDim);
    load_padded<C, C::kKeys, C::kVPitch, C::kDim>(at.base + C::kVAt + slot_v, v + stage * C::kKeys, padded, 0,
                                                  C::kDim, C::kKeys);
    device::commit_copies();
  };
  const int last = (lk - 1) / C::kKeys;
  fetch(last, 0, 0);
  uint32_t now = 0;
  bool outgrown = false;
  work.clear();
#pragma unroll 1
  for (int stage = last; stage >= 0; --stage) {
    device::wait_copies<0>();
    __syncthreads();
    const float k_scale = p.k_scales[int64_t{bh} * ((lk + 127) / 128) + stage];
    if (stage > 0) fetch(stage - 1, C::kKBytes - now, C::kVBytes - now);
    work.use_scale(rows, k_scale);
#pragma unroll 1
    for (int part = 0; part < C::kKeys / C::kPart; ++part) {
      const uint32_t k_at = at.k + now + part * C::kPart * C::kKPitch;
      const int present = lk - stage * C::kKeys - part * C::kPart;
      const bool begins = stage == last && part == 0;
      if (begins) work.subtract(k_at, present, rows, k_scale, true);
      if (__any_sync(~0u, work.weigh_part(k_at, present) != 0)) {
        work.subtract(k_at, present, rows, k_scale, false);
        outgrown |= work.weigh_part(k_at, present) != 0;
      }
      work.add_part(at.k + C::kVAt + now + part * C::kPart);
    }
    static_assert(C::kKBytes == C::kVBytes);
    now = C::kKBytes - now;
  }
  __syncthreads();  // the stages are about to be overwritten
  // A sum of no number is noted as one that has outgrown its room.
  if (__any_sync(~0u, outgrown)) work.ones[0][0] = work.ones[0][2] = INFINITY;
  finish_rows<C>(work.o, work.ones, p, bh, first_row, rows, shared);
}

}  // namespace tachy::ops::flash
