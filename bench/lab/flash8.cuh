// A trial, not in use: attention with both products in 8 bits, Hopper, head dim 128. As flash_sm90.cuh:
// warp-specialised, clusters of two, two warpgroups of 64 queries in turns, scores that are powers of two.
//
//   s [64, 128] = q·kᵀ           q, k [H, L, 128]: e4m3, and their product carries scale·log2(e); or int8 (kWhole), with a
//                                scale a query (that has both) and one for kScaled keys
//   p = 2^(s - shift) in e4m3    shift: of a row, chosen by its first step (kShift), or none
//   o [64, 136] += p·vᵀ          vᵀ: e4m3, [H, 128, Lk'], and 8 more rows in shared memory, the first of ones:
//                                o's column 128 is the sum of the weights as they were rounded
// The tensor cores keep about 14 bits of a sum of 8-bit products, so every kPromote steps o is added to float32 sums
// in shared memory.
//
// wgmma leaves scores as pairs of neighbouring columns and takes 8-bit weights as four: vᵀ's keys are stored in an
// order in which both are the same registers. Position 4q + j of 16 holds key 2q + j, or 8 + 2q + j - 2 for j >= 2.
#pragma once

#include <type_traits>

#include "device/cache_policy.cuh"
#include "device/cluster.cuh"
#include "device/mma_sm80.cuh"
#include "device/ring.cuh"
#include "device/wgmma_attention.cuh"

namespace flash8 {

using namespace tachy;

struct Params {
  __nv_bfloat16* out;     // [Lq, H, 128]
  const float* q_scales;  // [H, Lq], of int8
  const float* k_scales;  // [H, 2·steps]
  int64_t out_row;
  int lq, lk, heads, steps, units_per_head, units;
};

struct Maps {
  CUtensorMap q, k, v;
};

constexpr int kKeys = 128, kScaled = 64, kStages = 3, kCluster = 2, kPromote = 8, kSums = 68;
constexpr int kQBytes = 128 * 128, kKBytes = kKeys * 128, kVBytes = 136 * 128, kVLoaded = 128 * 128;
constexpr int kTotalBytes = kSums * 256 * 4;
constexpr int kSharedBytes = 1024 + 2 * kQBytes + kStages * (kKBytes + kVBytes) + kTotalBytes;

#define FLASH8_S4(a, b, c, d) ",%" #a ",%" #b ",%" #c ",%" #d

__device__ __forceinline__ void scores_mma(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S64 "}, %64, %65, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F64(d)
      : "l"(a), "l"(b), "r"(accumulate));
}
#define FLASH8_R8(d, i)                                                                           \
  "+r"((d)[(i)]), "+r"((d)[(i) + 1]), "+r"((d)[(i) + 2]), "+r"((d)[(i) + 3]), "+r"((d)[(i) + 4]), \
      "+r"((d)[(i) + 5]), "+r"((d)[(i) + 6]), "+r"((d)[(i) + 7])
__device__ __forceinline__ void scores_mma(uint32_t (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" TACHY_WGMMA_S64 "}, %64, %65, p;\n}\n"
      : FLASH8_R8(d, 0), FLASH8_R8(d, 8), FLASH8_R8(d, 16), FLASH8_R8(d, 24), FLASH8_R8(d, 32),
        FLASH8_R8(d, 40), FLASH8_R8(d, 48), FLASH8_R8(d, 56)
      : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void sum_mma(float (&d)[kSums], const uint32_t* p, uint64_t v, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %73, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n136k32.f32.e4m3.e4m3 {" TACHY_WGMMA_S64 FLASH8_S4(
          64, 65, 66, 67) "}, {%68,%69,%70,%71}, %72, p, 1, 1;\n}\n"
      : TACHY_WGMMA_F64(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
      : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v), "r"(accumulate));
}

__device__ __forceinline__ uint32_t pack4(float a, float b, float c, float d) {
  uint32_t out;
  asm("{\n.reg .b16 lo, hi;\n"
      "cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3;\n"
      "mov.b32 %0, {lo, hi};\n}\n"
      : "=r"(out)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return out;
}

struct Barriers {
  uint32_t base;
  __device__ uint32_t q_full(int i, int g) const { return base + 8 * (i * 2 + g); }
  __device__ uint32_t q_empty(int i, int g) const { return base + 32 + 8 * (i * 2 + g); }
  __device__ uint32_t k_full(int i) const { return base + 64 + 8 * i; }
  __device__ uint32_t k_empty(int i) const { return k_full(i) + 8 * kStages; }
  __device__ uint32_t v_full(int i) const { return k_full(i) + 16 * kStages; }
  __device__ uint32_t v_empty(int i) const { return k_full(i) + 24 * kStages; }
};

__device__ inline void load_all(const Params& p, const Maps& maps, uint32_t q, uint32_t k, uint32_t v,
                                Barriers b, uint32_t rank) {
  device::RingPlace<kStages> k_ring, v_ring;
  device::RingPlace<2> q_ring;
  const uint64_t stay = device::cache_policy<device::Keep::last>();
  const int clusters = gridDim.x / kCluster;
  for (int unit = blockIdx.x / kCluster; unit < p.units; unit += clusters) {
    const int head = unit / p.units_per_head,
              row = (unit % p.units_per_head * kCluster + static_cast<int>(rank)) * 128;
    const auto load_k = [&](int step) {
      device::barrier_wait(b.k_empty(k_ring.index), k_ring.parity ^ 1);
      device::barrier_expect(b.k_full(k_ring.index), kKBytes);
      device::tma_load_all(k + k_ring.index * kKBytes + rank * (kKBytes / 2), &maps.k, b.k_full(k_ring.index),
                           0, step * kKeys + static_cast<int>(rank) * (kKeys / 2), head, 0, 3, stay);
      k_ring.next();
    };
    const auto load_v = [&](int step) {
      device::barrier_wait(b.v_empty(v_ring.index), v_ring.parity ^ 1);
      device::barrier_expect(b.v_full(v_ring.index), kVLoaded);
      device::tma_load_all(v + v_ring.index * kVBytes + rank * (kVLoaded / 2), &maps.v,
                           b.v_full(v_ring.index), step * (kKeys / 2), static_cast<int>(rank) * 64, head, 0,
                           3, stay);
      v_ring.next();
    };
    load_k(p.steps - 1);
    for (int g = 0; g < 2; ++g) {
      device::barrier_wait(b.q_empty(q_ring.index, g), q_ring.parity ^ 1);
      device::barrier_expect(b.q_full(q_ring.index, g), kQBytes / 2);
      device::tma_load(q + q_ring.index * kQBytes + g * (kQBytes / 2), &maps.q, b.q_full(q_ring.index, g), 0,
                       row + g * 64, head, 0);
    }
    q_ring.next();
    for (int step = p.steps - 2; step >= 0; --step) load_k(step), load_v(step + 1);
    load_v(0);
  }
}

__device__ __forceinline__ void turn_wait(int group) {
  asm volatile("bar.sync %0, 256;\n" ::"r"(1 + group) : "memory");
}
__device__ __forceinline__ void turn_give(int group) {
  asm volatile("bar.arrive %0, 256;\n" ::"r"(1 + group) : "memory");
}

template <class Score>
__device__ __forceinline__ void mul_scores(Score (&s)[64], device::MatrixBase q, device::MatrixBase k) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; ++c) scores_mma(s, q.at(c * 32), k.at(c * 32), c > 0);
  device::wgmma_commit();
}
__device__ __forceinline__ void mul_weights(float (&o)[kSums], uint32_t (&w)[16], device::MatrixBase v,
                                            int accumulate) {
  device::wgmma_fence();
#pragma unroll
  for (int c = 0; c < 4; ++c) sum_mma(o, w + 4 * c, v.at(c * 32), c > 0 ? 1 : accumulate);
  device::wgmma_commit();
}

// What makes exponents of a thread's scores: of its two rows, and of each kScaled keys.
struct Exponents {
  float factor[2][2], minus[2][2];
};
// An integer added to the bits of 1.5·2^23 is a float that much larger.
constexpr float kMagic = 12582912.0f;
constexpr uint32_t kMagicBits = 0x4b400000;

template <bool kShift>
__device__ __forceinline__ void soften(const float (&s)[64], float (&w)[64], const Exponents&,
                                       const float (&shift)[2]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) w[i] = device::exp2_approx(kShift ? s[i] - shift[i / 2 % 2] : s[i]);
}
template <bool kShift>
__device__ __forceinline__ void soften(const uint32_t (&s)[64], float (&w)[64], const Exponents& by,
                                       const float (&)[2]) {
#pragma unroll
  for (int i = 0; i < 64; ++i)
    w[i] = device::exp2_approx(
        fmaf(__uint_as_float(s[i] + kMagicBits), by.factor[i / 2 % 2][i / 32], by.minus[i / 2 % 2][i / 32]));
}
__device__ __forceinline__ void pack_weights(uint32_t (&w)[16], const float (&s)[64]) {
#pragma unroll
  for (int c = 0; c < 8; ++c)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float *even = s + 8 * c + 2 * r, *odd = even + 4;
      w[2 * c + r] = pack4(even[0], even[1], odd[0], odd[1]);
    }
}

__device__ __forceinline__ void release(uint32_t empty, uint32_t lane) {
  if (lane < kCluster) device::barrier_arrive_at(empty, lane);
}

template <bool kWhole, bool kShift>
__device__ inline void compute(const Params& p, uint32_t q_at, uint32_t k_at, uint32_t v_at, float* totals,
                               Barriers b, uint32_t rank) {
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0) - 1;
  const uint32_t lane = threadIdx.x & 31;
  device::RingPlace<kStages> k_ring, v_ring;
  device::RingPlace<2> q_ring;
  const auto k_tile = [&] { return device::uniform(device::k_major(k_at + k_ring.index * kKBytes)); };
  const auto v_tile = [&] { return device::uniform(device::k_major(v_at + v_ring.index * kVBytes)); };
  float* total = totals + (threadIdx.x - 128);
  if (group == 1) turn_give(0);
  const int clusters = gridDim.x / kCluster;
  for (int unit = blockIdx.x / kCluster; unit < p.units; unit += clusters) {
    using Score = std::conditional_t<kWhole, uint32_t, float>;
    Score s[64];
    float e[64], o[kSums], shift[2] = {0, 0}, q_scale[2] = {1, 1};
    uint32_t w[16];
    const int warp = threadIdx.x / 32 & 3, quad = lane & 3, head = unit / p.units_per_head;
    const int first =
        (unit % p.units_per_head * kCluster + static_cast<int>(rank)) * 128 + group * 64 + warp * 16;
    const float2* k_scales = reinterpret_cast<const float2*>(p.k_scales) + head * p.steps;
    if constexpr (kWhole) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        q_scale[r] =
            p.q_scales[int64_t{head} * p.lq + min(first + r * 8 + static_cast<int>(lane) / 4, p.lq - 1)];
    }
    const auto exponents = [&](float2 k_scale) {
      Exponents by{};
      if constexpr (kWhole) {
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            by.factor[r][half] = q_scale[r] * (half ? k_scale.y : k_scale.x);
            by.minus[r][half] = fmaf(-kMagic, by.factor[r][half], -shift[r]);
          }
      }
      return by;
    };
    const auto q = device::uniform(device::k_major(q_at + q_ring.index * kQBytes + group * (kQBytes / 2)));
    device::barrier_wait(b.q_full(q_ring.index, group), q_ring.parity);
    device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
    mul_scores(s, q, k_tile());
    device::wgmma_wait<0>();
    device::wgmma_touch(s);
    release(b.k_empty(k_ring.index), lane);
    k_ring.next();
    const int present = p.lk - (p.steps - 1) * kKeys, column = (threadIdx.x & 3) * 2;
    float2 k_scale{};
    if constexpr (kWhole) k_scale = k_scales[p.steps - 1];
    if constexpr (kShift) {  // 2^3 of room below the largest of the first step, 2^5 above it
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float most = -INFINITY;
#pragma unroll
        for (int i = 2 * r; i < 64; i += i % 2 ? 3 : 1)
          if (i / 4 * 8 + column + i % 2 < present)
            most = fmaxf(most, kWhole ? static_cast<float>(static_cast<int>(s[i])) * q_scale[r] *
                                            (i / 32 ? k_scale.y : k_scale.x)
                                      : static_cast<float>(s[i]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        shift[r] = fmaxf(most, __shfl_xor_sync(~0u, most, 2)) - 3;
      }
    }
    soften<kShift>(s, e, exponents(k_scale), shift);
    if (present < kKeys) {
#pragma unroll
      for (int i = 0; i < 64; ++i)
        if (i / 4 * 8 + column + i % 2 >= present) e[i] = 0;
    }
    pack_weights(w, e);
#pragma unroll
    for (int i = 0; i < kSums; ++i) o[i] = 0, total[i * 256] = 0;
    int count = 0;
    for (int step = p.steps - 2; step >= 0; --step) {
      const auto k = k_tile(), v = v_tile();
      if constexpr (kWhole) k_scale = __ldg(k_scales + step);
      device::barrier_wait(b.k_full(k_ring.index), k_ring.parity);
      turn_wait(group);
      mul_scores(s, q, k);
      device::barrier_wait(b.v_full(v_ring.index), v_ring.parity);
      mul_weights(o, w, v, count);
      turn_give(group ^ 1);
      device::wgmma_wait<1>();
      device::wgmma_touch(s);
      release(b.k_empty(k_ring.index), lane);
      k_ring.next();
      soften<kShift>(s, e, exponents(k_scale), shift);
      // Two waits, so that they stay behind a branch on the exponentials (flash_sm90.cuh).
      if (++count == kPromote) {
        asm volatile("wgmma.wait_group.sync.aligned 0; // promote\n" ::: "memory");
        device::wgmma_touch(o);
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i * 256] += o[i];
        count = 0;
      } else {
        device::wgmma_wait<0>();
        device::wgmma_touch(o);
      }
      device::wgmma_touch(w);
      release(b.v_empty(v_ring.index), lane);
      v_ring.next();
      pack_weights(w, e);
    }
    if (lane == 0) device::barrier_arrive(b.q_empty(q_ring.index, group));
    q_ring.next();
    device::barrier_wait(b.v_full(v_ring.index), v_ring.parity);
    mul_weights(o, w, v_tile(), count);
    device::wgmma_wait<0>();
    device::wgmma_touch(o);
    release(b.v_empty(v_ring.index), lane);
    v_ring.next();
#pragma unroll
    for (int i = 0; i < kSums; ++i) o[i] += total[i * 256];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = __shfl_sync(~0u, o[64 + 2 * r], lane & ~3u);
      const int row = first + r * 8 + static_cast<int>(lane) / 4;
      if (row >= p.lq) continue;
      const float inverse = 1 / sum;
      __nv_bfloat16* to = p.out + row * p.out_row + head * 128 + quad * 2;
#pragma unroll
      for (int g = 0; g < 16; ++g)
        *reinterpret_cast<__nv_bfloat162*>(to + g * 8) =
            __floats2bfloat162_rn(o[g * 4 + 2 * r] * inverse, o[g * 4 + 2 * r + 1] * inverse);
    }
  }
}

template <bool kWhole, bool kShift>
__global__ void __launch_bounds__(384, 1)
    kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
  extern __shared__ char shared[];
  __shared__ uint64_t barriers[8 + 4 * kStages];
  char* base = shared + ((1024 - (device::shared_address(shared) & 1023)) & 1023);
  uint32_t q = device::shared_address(base);
  Barriers b{device::shared_address(barriers)};
  asm volatile("" : "+r"(q), "+r"(b.base));
  const uint32_t v = q + 2 * kQBytes, k = v + kStages * kVBytes;
  float* totals = reinterpret_cast<float*>(base + 2 * kQBytes + kStages * (kKBytes + kVBytes));
  const uint32_t rank = device::cluster_rank();
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  // Rows 128 to 135 of each tile of vᵀ: ones (0x38 in e4m3), then zeros. The swizzle stays within a row.
  for (int i = threadIdx.x; i < kStages * 256; i += 384)
    *reinterpret_cast<uint32_t*>(base + 2 * kQBytes + i / 256 * kVBytes + kVLoaded + i % 256 * 4) =
        i % 256 < 32 ? 0x38383838u : 0u;
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; ++i)
      device::barrier_init(b.q_full(i / 2, i % 2), 1), device::barrier_init(b.q_empty(i / 2, i % 2), 4);
    for (int i = 0; i < kStages; ++i) {
      device::barrier_init(b.k_full(i), 1), device::barrier_init(b.v_full(i), 1);
      device::barrier_init(b.k_empty(i), 8 * kCluster), device::barrier_init(b.v_empty(i), 8 * kCluster);
    }
    device::barrier_init_fence();
  }
  device::cluster_sync();
  if (warp < 4) {
    device::give_registers<40>();
    if (warp == 0 && threadIdx.x % 32 == 0) load_all(p, maps, q, k, v, b, rank);
  } else {
    device::take_registers<232>();
    compute<kWhole, kShift>(p, q, k, v, totals, b, rank);
  }
  __syncwarp();
  device::cluster_sync();
}

}  // namespace flash8
