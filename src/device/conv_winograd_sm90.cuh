// A causal 3x3x3 convolution on Hopper with two thirds of the products: Winograd's F(2, 3) along the rows of
// pixels. Two neighbouring outputs y0, y1 need four inputs d0 … d3 and three taps g0, g1, g2 of a row:
//   sum = (d1 + d2)·(g0 + g1 + g2)/2     difference = (d2 − d1)·(g0 − g1 + g2)/2
//   y0 = sum + difference + (d0 − d2)·g0       y1 = sum − difference + (d3 − d1)·g2
// which is four products in place of six. They are summed over channels, row taps and frame taps before they
// are combined, so that no more sums are held than there are outputs:
//   pass 1   acc[0] += (d1 + d2)·w1, acc[1] += (d2 − d1)·w2 over all of K, then (acc[0], acc[1]) becomes
//            (acc[0] + acc[1], acc[0] − acc[1])
//   pass 2   acc[0] += (d0 − d2)·g0, acc[1] += (d3 − d1)·g2 over all of K
// Weights w1, w2 are rounded once more, and so are the sums of two inputs (bench/notes/vae.md has the error).
//
//   tile     512 positions (a rectangle of one output frame) x kN output channels, float32 sums
//   step     for each pass, frame tap that has a frame, chunk of 32 channels: the box of the odd columns, that
//            of the even ones, each with a row above and below, and the weights of three row taps, two products
//   residual comes through steps, too: 32 channels of the whole rectangle each
//
//   warp 0 loads steps   warpgroups 1, 2: 128 pairs each, as two blocks of 64 whose rows alternate. A row of
//   inputs serves up to three row taps and two blocks from registers.
#pragma once

#include "device/conv_sm90.cuh"
#include "device/conv_winograd_params.h"
#include "device/mma_sm80.cuh"
#include "device/wgmma_attention.cuh"
#include "device/wgmma_rows.cuh"

namespace tachy::device {

template <class T_, int kN_>
struct ConvPairTile90 {
  using T = T_;
  static constexpr int kN = kN_, kMi = 4, kTaps = 3, kChunk = 32, kRowBytes = kChunk * 2;
  static constexpr int kPositions = 512;
  // 18 x 17 or 34 x 9 pairs; the swizzle has a period of 512 bytes.
  static constexpr int kBoxRows = 312, kBoxBytes = kBoxRows * kRowBytes;
  static constexpr int kWeightBytes = kN * kRowBytes, kWeightPitch = (kWeightBytes + 511) / 512 * 512;
  static constexpr int kABytes = 2 * kBoxBytes + 6 * kWeightPitch;  // one step
  static constexpr int kASteps = 3;
  static constexpr int kSharedBytes = 512 + kASteps * kABytes;
  static_assert(kBoxBytes % 512 == 0 && kSharedBytes <= 227 * 1024 - 64);

  // The row in the tile of a warp's row r of pairs, 0 to 15, in the first of its two blocks; the second's is the next one.
  __device__ static int row_of(const Conv90Params& p, int group, int r) {
    const int pairs_log2 = p.columns_log2 - 1, warp = threadIdx.x / 32 & 3;
    return ((group * 4 + warp) * (16 >> pairs_log2) + (r >> pairs_log2)) * 2;
  }
  __device__ static ConvPlace place(const Conv90Params& p, int group, int mi, int half) {
    const int pairs_log2 = p.columns_log2 - 1, r = half * 8 + (threadIdx.x & 31) / 4;
    const int row = row_of(p, group, r) + mi / 2, pair = r & ((1 << pairs_log2) - 1);
    return {row, 2 * pair + mi % 2, mi % 2 * kBoxRows + (row << pairs_log2) + pair};
  }
};

// Loads the columns of one side (0: even, 1: odd) from pair `pair` on.
__device__ inline void conv_pairs_load(const ConvWinogradParams& p, void* to, const CUtensorMap* map,
                                       uint64_t* full, int channel, int pair, int side, int row, int frame) {
  tma_load(to, map, full, channel, pair * p.pair_columns + side * p.side_columns, row, frame);
}

template <class C>
__device__ inline void conv_winograd_load(const ConvWinogradParams& params, const ConvWinogradMaps& maps,
                                          char* steps, uint64_t* full, uint64_t* empty) {
  const Conv90Params& p = params.c;
  RingPlace<C::kASteps> place;
  const int pairs_log2 = p.columns_log2 - 1;
  const int rows = C::kPositions >> p.columns_log2;
  const uint32_t box_bytes = (rows + 2) * ((1 << pairs_log2) + 1) * C::kRowBytes;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    const int pair = w.column / 2;
    for (int pass = 0; pass < 2; ++pass)
      for (int r = w.first_tap; r < p.s.kernel_t; ++r) {
        const int frame = w.t + r - p.s.front;
        const CUtensorMap* map = frame >= 0 ? &maps.chunk : &maps.cache;
        const int at = frame >= 0 ? frame : p.s.cache_frames + frame;
        for (int c = 0; c < p.chunks; ++c) {
          char* step = steps + place.index * C::kABytes;
          uint64_t* barrier = full + place.index;
          barrier_wait(empty + place.index, place.parity ^ 1);
          barrier_expect(barrier, 2 * box_bytes + 6 * C::kWeightBytes);
          conv_pairs_load(params, step, map, barrier, c * C::kChunk, pair, 0, w.row - 1, at);
          conv_pairs_load(params, step + C::kBoxBytes, map, barrier, c * C::kChunk + params.side_channels,
                          pair - 1, 1, w.row - 1, at);
          for (int i = 0; i < 6; ++i) {
            const int row = r * 3 + i / 2;
            const int tap = pass == 0 ? row * 2 + i % 2 : row * 3 + i % 2 * 2;
            tma_load(step + 2 * C::kBoxBytes + i * C::kWeightPitch, pass == 0 ? &maps.sums : &maps.weights,
                     barrier, tap * p.padded_ci + c * C::kChunk, w.n, 0);
          }
          place.next();
        }
      }
    if (!p.s.residual) continue;
    for (int c = 0; c < C::kN; c += C::kChunk) {
      char* step = steps + place.index * C::kABytes;
      barrier_wait(empty + place.index, place.parity ^ 1);
      barrier_expect(full + place.index, C::kPositions * C::kRowBytes);
      for (int side = 0; side < 2; ++side)
        conv_pairs_load(params, step + side * C::kBoxBytes, &maps.residual, full + place.index,
                        w.n + c + side * params.side_residual, pair, side, w.row, w.t);
      place.next();
    }
  }
}

__device__ inline uint32_t conv_add_pair(uint32_t a, uint32_t b) {
  const __nv_bfloat162 v =
      __hadd2(reinterpret_cast<__nv_bfloat162&>(a), reinterpret_cast<__nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(v);
}
__device__ inline uint32_t conv_subtract_pair(uint32_t a, uint32_t b) {
  const __nv_bfloat162 v =
      __hsub2(reinterpret_cast<__nv_bfloat162&>(a), reinterpret_cast<__nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(v);
}

// One pass over a tile's steps.
template <class C, int kPass>
__device__ inline void conv_winograd_pass(const Conv90Params& p, int steps, float (&acc)[C::kMi][C::kN / 2],
                                          uint32_t base, uint64_t* full, uint64_t* empty,
                                          RingPlace<C::kASteps>& place) {
  using T = typename C::T;
  const int group = threadIdx.x / 128 - 1, lane = threadIdx.x & 31, r = lane & 15;
  const int pairs = 1 << (p.columns_log2 - 1), pitch = pairs + 1;
  const int first = C::row_of(p, group, r) * pitch + (r & (pairs - 1));
  // Bytes in a box of 16 channels of the pair `shift` columns on, `down` rows below.
  const auto at = [&](int down, int shift, int k) {
    const uint32_t bytes = (first + down * pitch + shift) * C::kRowBytes + (lane >> 4) * 16;
    return (bytes ^ (bytes >> 7 & 3) << 4) ^ (k * 32);
  };
  // Products read their fragments until they are waited for, so those of two groups alternate.
  uint32_t fragments[2][2][4] = {};
  int last = -1;
  for (int s = 0; s < steps; ++s) {
    barrier_wait(full + place.index, place.parity);
    const uint32_t even = base + place.index * C::kABytes, odd = even + C::kBoxBytes;
    const uint64_t weights = matrix_descriptor<C::kRowBytes>(even + 2 * C::kBoxBytes);
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int down = 0; down < 4; ++down) {
        uint32_t x[4], y[4];
        uint32_t(&a)[4] = fragments[down % 2][0], (&b)[4] = fragments[down % 2][1];
        if constexpr (kPass == 0) {
          load_tiles(x, even + at(down, 0, k)), load_tiles(y, odd + at(down, 1, k));
#pragma unroll
          for (int i = 0; i < 4; ++i) a[i] = conv_add_pair(x[i], y[i]), b[i] = conv_subtract_pair(y[i], x[i]);
        } else {
          load_tiles(x, odd + at(down, 0, k)), load_tiles(y, odd + at(down, 1, k));
#pragma unroll
          for (int i = 0; i < 4; ++i) a[i] = conv_subtract_pair(x[i], y[i]);
          load_tiles(x, even + at(down, 0, k)), load_tiles(y, even + at(down, 1, k));
#pragma unroll
          for (int i = 0; i < 4; ++i) b[i] = conv_subtract_pair(y[i], x[i]);
        }
        wgmma_fence();
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          const int tap = down - block;
          if (tap < 0 || tap > 2) continue;
          const uint64_t w = weights + (2 * tap * C::kWeightPitch >> 4) + (k * 32 >> 4);
          wgmma_rows<C::kN, T>(acc[2 * block], a, w);
          wgmma_rows<C::kN, T>(acc[2 * block + 1], b, w + (C::kWeightPitch >> 4));
        }
        wgmma_commit();
        wgmma_wait<1>();
        wgmma_touch(fragments[1 - down % 2][0]), wgmma_touch(fragments[1 - down % 2][1]);
        if (k == 0 && down == 0 && last >= 0) conv90_release(empty + last);
      }
    last = place.index;
    place.next();
  }
  wgmma_wait<0>();
  wgmma_touch(fragments[0][0]), wgmma_touch(fragments[0][1]);
  wgmma_touch(fragments[1][0]), wgmma_touch(fragments[1][1]);
  if (last >= 0) conv90_release(empty + last);
}

template <class C>
__device__ inline void conv_winograd_multiply(const Conv90Params& p, char* steps, uint64_t* full,
                                              uint64_t* empty) {
  const int group = threadIdx.x / 128 - 1;
  RingPlace<C::kASteps> place;
  const uint32_t base = shared_address(steps);
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    const int count = max(0, p.s.kernel_t - w.first_tap) * p.chunks;
    float acc[C::kMi][C::kN / 2];
#pragma unroll
    for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
      for (int i = 0; i < C::kN / 2; ++i) acc[mi][i] = 0;
    conv_winograd_pass<C, 0>(p, count, acc, base, full, empty, place);
#pragma unroll
    for (int mi = 0; mi < C::kMi; mi += 2)
#pragma unroll
      for (int i = 0; i < C::kN / 2; ++i) {
        asm volatile("{\n.reg .f32 t;\nsub.f32 t, %0, %1;\nadd.f32 %0, %0, %1;\nmov.f32 %1, t;\n}\n"
                     : "+f"(acc[mi][i]), "+f"(acc[mi + 1][i]));
      }
    conv_winograd_pass<C, 1>(p, count, acc, base, full, empty, place);
    conv90_finish<C>(p, w, acc, group, steps, full, empty, place);
  }
}

template <class C>
__global__ void __launch_bounds__(384, 1) conv_winograd_sm90(const __grid_constant__ ConvWinogradMaps maps,
                                                             const __grid_constant__ ConvWinogradParams p) {
  extern __shared__ char shared[];
  __shared__ uint64_t full[C::kASteps], empty[C::kASteps];
  char* steps = shared + (512 - (shared_address(shared) & 511)) % 512;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kASteps; ++i) barrier_init(full + i, 1), barrier_init(empty + i, 8);
    barrier_init_fence();
    tma_prefetch(&maps.chunk), tma_prefetch(&maps.cache), tma_prefetch(&maps.residual);
    tma_prefetch(&maps.weights), tma_prefetch(&maps.sums);
  }
  __syncthreads();
  if (warp < 4) {
    give_registers<24>();  // (168 − 24)·128 = (240 − 168)·256: the block starts with 168 per thread
    if (threadIdx.x == 0) conv_winograd_load<C>(p, maps, steps, full, empty);
  } else {
    take_registers<240>();
    conv_winograd_multiply<C>(p.c, steps, full, empty);
  }
}

}  // namespace tachy::device
