// Implicit GEMM of a causal 3x3x3 convolution in e4m3 on Hopper. Tiles, rings, roles and the order of K are
// those of device/conv_sm90.cuh. A step's rows have the same number of bytes, and so twice as many channels.
//
//   A step, B step   one box of kWide channels and, where kNarrow is not 0, one of kNarrow after it: 96
//                    channels are rows of 64 and of 32 bytes, each box with its own swizzle, one barrier
//   residual         16-bit numbers, kWide / 2 channels an A step
//   epilogue         sum · scale[o] + bias[o] + residual → y; its norm with silu → numbers, or codes
#pragma once

#include "device/conv8_params.h"
#include "device/conv_sm90.cuh"
#include "device/wgmma_codes.cuh"

namespace tachy::device {

template <int kWide_, int kNarrow_, int kN_, int kMi_>
struct ConvTile8 {
  using T = __nv_bfloat16;
  static constexpr int kTaps = 3, kWide = kWide_, kNarrow = kNarrow_, kN = kN_, kMi = kMi_;
  static constexpr int kChunk = kWide + kNarrow;  // number of channels, and of bytes
  static constexpr int kPositions = 2 * kMi * 64;
  static constexpr int kARows = kPositions + 16 * (kTaps - 1);  // 8 or 16 columns, and two rows of halo
  static constexpr int kABytes = kARows * kChunk, kBBytes = kN * kChunk;
  static constexpr int kBPitch = (kBBytes + 1023) / 1024 * 1024;
  static constexpr int kBudget = 225 * 1024;
  // About as many taps of A as of B fit in, and at least two A steps.
  static constexpr int kPairs = kBudget / (kABytes + kTaps * kBPitch);
  static constexpr int kASteps = kPairs < 2 ? 2 : kPairs > 8 ? 8 : kPairs;
  static constexpr int kBFit = (kBudget - kASteps * kABytes) / kBPitch;
  static constexpr int kBSteps = kBFit > 24 ? 24 : kBFit;
  // Boxes begin at multiples of their swizzle's period.
  static_assert(kBSteps >= 2 && kARows * kWide % 1024 == 0 && kABytes % 1024 == 0 && kN * kWide % 1024 == 0);
  static_assert(kN % 32 == 0);
  static constexpr int kSharedBytes = 1024 + kASteps * kABytes + kBSteps * kBPitch;
};

template <class C>
__device__ inline void conv8_load_a(const Conv8Params& params, const Conv8Maps& maps, char* a, uint64_t* full,
                                    uint64_t* empty) {
  const Conv90Params& p = params.c;
  RingPlace<C::kASteps> place;
  const int rows = C::kPositions >> p.columns_log2;
  const uint32_t bytes = ((rows + C::kTaps - 1) << p.columns_log2) * C::kChunk;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    for (int r = w.first_tap; r < 3; ++r) {
      const int frame = w.t + r - 2;
      const CUtensorMap* map = frame >= 0 ? maps.chunk : maps.cache;
      const int at = frame >= 0 ? frame : p.s.cache_frames + frame;
      for (int c = 0; c < p.chunks; ++c)
        for (int q = 0; q < 3; ++q) {
          char* to = a + place.index * C::kABytes;
          barrier_wait(empty + place.index, place.parity ^ 1);
          barrier_expect(full + place.index, bytes);
          tma_load(to, map, full + place.index, c * C::kChunk, w.column + q - 1, w.row - 1, at);
          if constexpr (C::kNarrow > 0)
            tma_load(to + C::kARows * C::kWide, map + 1, full + place.index, c * C::kChunk + C::kWide,
                     w.column + q - 1, w.row - 1, at);
          place.next();
        }
    }
    if (!p.s.residual) continue;
    for (int c = 0; c < C::kN; c += C::kWide / 2) {
      barrier_wait(empty + place.index, place.parity ^ 1);
      barrier_expect(full + place.index, C::kPositions * C::kWide);
      tma_load(a + place.index * C::kABytes, &maps.residual, full + place.index, w.n + c, w.column, w.row,
               w.t);
      place.next();
    }
  }
}

template <class C>
__device__ inline void conv8_load_b(const Conv8Params& params, const Conv8Maps& maps, char* b, uint64_t* full,
                                    uint64_t* empty) {
  const Conv90Params& p = params.c;
  RingPlace<C::kBSteps> place;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    for (int r = w.first_tap; r < 3; ++r)
      for (int c = 0; c < p.chunks; ++c)
        for (int q = 0; q < 3; ++q)
          for (int row = 0; row < 3; ++row) {
            const int k = ((r * 3 + row) * 3 + q) * p.padded_ci + c * C::kChunk;
            char* to = b + place.index * C::kBPitch;
            barrier_wait(empty + place.index, place.parity ^ 1);
            barrier_expect(full + place.index, C::kBBytes);
            tma_load(to, maps.weights, full + place.index, k, w.n, 0);
            if constexpr (C::kNarrow > 0)
              tma_load(to + C::kN * C::kWide, maps.weights + 1, full + place.index, k + C::kWide, w.n, 0);
            place.next();
          }
  }
}

// Rounds to nearest even; values beyond ±448 become ±448.
__device__ inline uint32_t conv8_pair(float a, float b) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(pair) : "f"(a), "f"(b));
  return pair;
}

// Writes acc as codes to the tile's place in y. A thread gathers 8 channels of a position from its quad, two
// blocks of 8 at a time, so that both share one exchange.
template <class C>
__device__ inline void conv8_write_codes(const Conv8Params& params, const Conv90Work& w,
                                         const float (&acc)[C::kMi][C::kN / 2], int group) {
  const Conv90Params& p = params.c;
  const ConvShape& s = p.s;
  const int warp = threadIdx.x / 32 & 3, lane = threadIdx.x & 31, quad = lane & 3;
  uint8_t* codes = static_cast<uint8_t*>(params.codes) + w.t * s.y_frame;
#pragma unroll
  for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = (group * C::kMi + mi) * 64 + warp * 16 + half * 8 + lane / 4;
      const int i = w.row + (position >> p.columns_log2);
      const int j = w.column + (position & ((1 << p.columns_log2) - 1));
      const bool inside = i < s.height && j < s.width;
      uint8_t* at = codes + i * s.y_row + j * s.y_column;
      const auto pair = [&](int b) {
        return conv8_pair(acc[mi][b * 4 + half * 2] * params.inverse,
                          acc[mi][b * 4 + half * 2 + 1] * params.inverse);
      };
#pragma unroll
      for (int b0 = 0; b0 < C::kN / 8; b0 += 8) {
        constexpr int kBlocks = C::kN / 8;
        uint32_t v[4];
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          v[b] = pair(b0 + b);
          if (b0 + 4 < kBlocks) v[b] |= pair(b0 + 4 < kBlocks ? b0 + 4 + b : 0) << 16;
        }
        transpose_quad(v);
#pragma unroll
        for (int high = 0; high < 2; ++high) {
          const int o = w.n + (b0 + high * 4 + quad) * 8;
          const uint32_t pick = high ? 0x7632 : 0x5410;  // picks halves of two words
          const uint2 eight = make_uint2(__byte_perm(v[0], v[1], pick), __byte_perm(v[2], v[3], pick));
          if (b0 + high * 4 < kBlocks && inside && o < s.co) *reinterpret_cast<uint2*>(at + o) = eight;
        }
      }
    }
}

// Turns sums of codes into the results that the call asks for.
template <class C>
__device__ inline void conv8_finish(const Conv8Params& params, const Conv90Work& w,
                                    float (&acc)[C::kMi][C::kN / 2], int group, const char* a,
                                    uint64_t* full_a, uint64_t* empty_a, RingPlace<C::kASteps>& place) {
  const Conv90Params& p = params.c;
  const ConvShape& s = p.s;
  const int quad = threadIdx.x & 3;
  const float* bias = static_cast<const float*>(s.bias);
#pragma unroll
  for (int b = 0; b < C::kN / 8; ++b) {
    const int channel = w.n + b * 8 + quad * 2;
    float2 scale = {}, add = {};
    if (channel < s.co) {  // co is a multiple of 8
      scale = __ldg(reinterpret_cast<const float2*>(params.scale + channel));
      if (bias) add = make_float2(__ldg(bias + channel), __ldg(bias + channel + 1));
    }
#pragma unroll
    for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float &x = acc[mi][b * 4 + half * 2], &y = acc[mi][b * 4 + half * 2 + 1];
        x = fmaf(x, scale.x, add.x), y = fmaf(y, scale.y, add.y);
      }
  }
  if (s.residual) conv90_add_residual<C, C::kWide / 2>(p, acc, group, a, full_a, empty_a, place);
  if (s.y) conv90_write<C>(p, w, acc, group, s.y);
  if (!p.normed && !params.codes) return;
  conv90_normalise<C>(p, acc);
  if (params.codes)
    conv8_write_codes<C>(params, w, acc, group);
  else
    conv90_write<C>(p, w, acc, group, p.normed);
}

template <class C>
__device__ inline void conv8_multiply(const Conv8Params& params, char* a, char* b, uint64_t* full_a,
                                      uint64_t* empty_a, uint64_t* full_b, uint64_t* empty_b) {
  const Conv90Params& p = params.c;
  const int group = threadIdx.x / 128 - 1;
  RingPlace<C::kASteps> pa;
  RingPlace<C::kBSteps> pb;
  const uint32_t a_base = shared_address(a), b_base = shared_address(b);
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    float acc[C::kMi][C::kN / 2];
    int last_a = -1, last_b = -1;
    int accumulate = 0;
    for (int s = 0; s < w.a_steps; ++s) {
      barrier_wait(full_a + pa.index, pa.parity);
      int first_row = group * (C::kMi * 64);
#pragma unroll
      for (int tap = 0; tap < C::kTaps; ++tap, first_row += 1 << p.columns_log2) {
        barrier_wait(full_b + pb.index, pb.parity);
        const uint32_t a_at = a_base + pa.index * C::kABytes, b_at = b_base + pb.index * C::kBPitch;
        wgmma_fence();
        const auto multiply = [&]<int kRowBytes>(uint32_t a_box, uint32_t b_box) {
          const uint64_t da = matrix_descriptor<kRowBytes>(a_box + first_row * kRowBytes);
          const uint64_t db = matrix_descriptor<kRowBytes>(b_box);
#pragma unroll
          for (int k = 0; k < kRowBytes / 32; ++k) {
#pragma unroll
            for (int mi = 0; mi < C::kMi; ++mi)
              wgmma_codes<C::kN>(acc[mi], da + ((mi * 64 * kRowBytes + k * 32) >> 4), db + (k * 32 >> 4),
                                 accumulate);
            accumulate = 1;
          }
        };
        multiply.template operator()<C::kWide>(a_at, b_at);
        if constexpr (C::kNarrow > 0)
          multiply.template operator()<C::kNarrow>(a_at + C::kARows * C::kWide, b_at + C::kN * C::kWide);
        wgmma_commit();
        wgmma_wait<1>();
        if (last_b >= 0) conv90_release(empty_b + last_b);
        if (tap == 0 && last_a >= 0) conv90_release(empty_a + last_a);
        last_b = pb.index;
        pb.next();
      }
      last_a = pa.index;
      pa.next();
    }
    wgmma_wait<0>();  // the last tap always has its frame, so there was a step
    conv90_release(empty_b + last_b);
    conv90_release(empty_a + last_a);
    conv8_finish<C>(params, w, acc, group, a, full_a, empty_a, pa);
  }
}

template <class C>
__global__ void __launch_bounds__(384, 1)
    conv8_sm90(const __grid_constant__ Conv8Maps maps, const __grid_constant__ Conv8Params params) {
  extern __shared__ char shared[];
  __shared__ uint64_t full_a[C::kASteps], empty_a[C::kASteps], full_b[C::kBSteps], empty_b[C::kBSteps];
  // The swizzle depends on address bits, so buffers begin at multiples of its period.
  char* a = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* b = a + C::kASteps * C::kABytes;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    conv90_init_barriers<C>(full_a, empty_a, full_b, empty_b);
    tma_prefetch(maps.chunk), tma_prefetch(maps.cache), tma_prefetch(maps.weights);
  }
  __syncthreads();
  if (warp < 4) {
    give_registers<40>();  // (168 − 40)·128 = (232 − 168)·256: the block starts with 168 per thread
    if (warp == 0 && threadIdx.x % 32 == 0) conv8_load_a<C>(params, maps, a, full_a, empty_a);
    if (warp == 1 && threadIdx.x % 32 == 0) conv8_load_b<C>(params, maps, b, full_b, empty_b);
  } else {
    take_registers<232>();
    conv8_multiply<C>(params, a, b, full_a, empty_a, full_b, empty_b);
  }
}

}  // namespace tachy::device
