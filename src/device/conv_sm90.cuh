// Implicit GEMM of a convolution on Hopper: wgmma fed by the bulk copy engine.
//
//   tile        M = 2·kMi·64 positions (a rectangle of one output frame) x kN output channels, float32 sums
//   K           for each frame tap r that has a frame, chunk of kChunk channels, column tap q, group of kTaps
//               row taps: one A step, within it for each row tap p: one B step
//   A step      box of the input frame, read in place (chunk or cache): (rows + kTaps − 1) x columns x
//               kChunk. A row tap is the same box read from p rows further on, so a 3x3 kernel loads 3 boxes,
//               not 9. What lies outside the frame arrives as zeros: that is the padding.
//   B step      kN x kChunk weights of one tap
//   residual    comes through A steps, too: kChunk channels of the whole rectangle each
//
//   warp 0: A steps   warp 1: B steps   warpgroups 1, 2: kMi·64 positions each
//     A  [0][1][2]…  full/empty barriers        for A step:  wait A
//     B  [0][1][2][3]…                             for p:    wait B, kMi·kChunk/16 wgmma, commit,
//                                                            wait for the group before: release its steps
//   Blocks are persistent: loads of the next tile run while this one's sums are stored.
#pragma once

#include "device/conv_pack.cuh"
#include "device/conv_sm90_params.h"
#include "device/numeric.cuh"
#include "device/ring.cuh"
#include "device/tma.cuh"
#include "device/wgmma_narrow.cuh"

namespace tachy::device {

template <class T_, int kTaps_, int kChunk_, int kN_, int kMi_>
struct ConvTile90 {
  using T = T_;
  static constexpr int kTaps = kTaps_, kChunk = kChunk_, kN = kN_, kMi = kMi_;
  static constexpr int kPositions = 2 * kMi * 64, kRowBytes = kChunk * 2;
  // There are 8 or 16 columns; the second needs more rows of halo for its size.
  static constexpr int kABytes = (kPositions + 16 * (kTaps - 1)) * kRowBytes;
  static constexpr int kBBytes = kN * kRowBytes, kBPitch = (kBBytes + 1023) / 1024 * 1024;
  static constexpr int kBudget = 225 * 1024;
  // About as many taps of A as of B fit in, and at least two A steps.
  static constexpr int kPairs = kBudget / (kABytes + kTaps * kBPitch);
  static constexpr int kASteps = kPairs < 2 ? 2 : kPairs > 8 ? 8 : kPairs;
  static constexpr int kBFit = (kBudget - kASteps * kABytes) / kBPitch;
  static constexpr int kBSteps = kBFit > 24 ? 24 : kBFit;
  static_assert(kBSteps >= 2);
  static constexpr int kSharedBytes = 1024 + kASteps * kABytes + kBSteps * kBPitch;
};

// The output that a tile index stands for. Frames change faster than rectangles, so that a frame is
// still in the cache when it is read for its other taps; channel tiles and phases, which read the
// same input, change fastest.
struct Conv90Work {
  int n, phase, t, row, column;
  int first_tap, a_steps;
  template <class C>
  __device__ Conv90Work(const Conv90Params& p, int index, C) {
    n = index % p.tiles_n * C::kN, index /= p.tiles_n;
    phase = index % p.s.phases, index /= p.s.phases;
    t = index % p.s.frames, index /= p.s.frames;
    column = index % p.tiles_w << p.columns_log2;
    row = index / p.tiles_w * (C::kPositions >> p.columns_log2);
    first_tap = max(0, p.s.front - p.s.history - t * p.s.time_stride);
    a_steps = max(0, p.s.kernel_t - first_tap) * p.chunks * p.s.kernel_w * (p.s.kernel_h / C::kTaps);
  }
};

template <class C>
__device__ inline void conv90_load_a(const Conv90Params& p, const CUtensorMap& chunk,
                                     const CUtensorMap& cache, const CUtensorMap& residual, char* a,
                                     uint64_t* full, uint64_t* empty) {
  RingPlace<C::kASteps> place;
  const int rows = C::kPositions >> p.columns_log2;
  const uint32_t bytes = ((rows + C::kTaps - 1) << p.columns_log2) * C::kRowBytes;
  const int groups = p.s.kernel_h / C::kTaps;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    const int top = w.row * p.s.stride - p.s.pad_top + w.phase / 2;
    const int left = w.column * p.s.stride - p.s.pad_left + w.phase % 2;
    for (int r = w.first_tap; r < p.s.kernel_t; ++r) {
      const int frame = w.t * p.s.time_stride + r - p.s.front;
      const CUtensorMap* map = frame >= 0 ? &chunk : &cache;
      const int at = frame >= 0 ? frame : p.s.cache_frames + frame;
      for (int c = 0; c < p.chunks; ++c)
        for (int q = 0; q < p.s.kernel_w; ++q)
          for (int g = 0; g < groups; ++g) {
            barrier_wait(empty + place.index, place.parity ^ 1);
            barrier_expect(full + place.index, bytes);
            tma_load(a + place.index * C::kABytes, map, full + place.index, c * C::kChunk, left + q,
                     top + g * C::kTaps, at);
            place.next();
          }
    }
    if (!p.s.residual) continue;
    for (int c = 0; c < C::kN; c += C::kChunk) {
      barrier_wait(empty + place.index, place.parity ^ 1);
      barrier_expect(full + place.index, C::kPositions * C::kRowBytes);
      tma_load(a + place.index * C::kABytes, &residual, full + place.index, w.n + c, w.column, w.row, w.t);
      place.next();
    }
  }
}

template <class C>
__device__ inline void conv90_load_b(const Conv90Params& p, const CUtensorMap& weights, char* b,
                                     uint64_t* full, uint64_t* empty) {
  RingPlace<C::kBSteps> place;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    for (int r = w.first_tap; r < p.s.kernel_t; ++r)
      for (int c = 0; c < p.chunks; ++c)
        for (int q = 0; q < p.s.kernel_w; ++q)
          for (int row = 0; row < p.s.kernel_h; ++row) {
            const int k = ((r * p.s.kernel_h + row) * p.s.kernel_w + q) * p.padded_ci + c * C::kChunk;
            barrier_wait(empty + place.index, place.parity ^ 1);
            barrier_expect(full + place.index, C::kBBytes);
            tma_load(b + place.index * C::kBPitch, &weights, full + place.index, k, w.n, w.phase);
            place.next();
          }
  }
}

// Where one of a thread's rows of sums belongs: row and column in the tile, and row of the residual's box.
struct ConvPlace {
  int row, column, box_row;
};

template <class C>
__device__ inline ConvPlace conv90_place(const Conv90Params& p, int group, int mi, int half) {
  if constexpr (requires { &C::place; }) {
    return C::place(p, group, mi, half);
  } else {
    const int position =
        (group * C::kMi + mi) * 64 + (threadIdx.x / 32 & 3) * 16 + half * 8 + (threadIdx.x & 31) / 4;
    return {position >> p.columns_log2, position & ((1 << p.columns_log2) - 1), position};
  }
}

// Called by each warp of both warpgroups when it has read a step.
__device__ inline void conv90_release(uint64_t* empty) {
  if ((threadIdx.x & 31) == 0) barrier_arrive(empty);
}

// The values of channels [c, c + 1] of row `row` in a box of 16-bit numbers.
template <int kRowBytes>
__device__ inline uint32_t conv90_pair(const char* box, int row, int c) {
  const uint32_t at = row * kRowBytes + c * 2;  // the swizzle: 16-byte pieces ^ 128-byte lines
  return *reinterpret_cast<const uint32_t*>(box + (at ^ (at >> 7 & (kRowBytes / 16 - 1)) << 4));
}

// Writes acc to y at the tile's place. A thread gathers 8 channels of a position from its quad for 16-byte
// stores. (If a tile has fewer than 32 channels, each value is stored by itself.)
template <class C>
__device__ inline void conv90_write(const Conv90Params& p, const Conv90Work& w,
                                    const float (&acc)[C::kMi][C::kN / 2], int group, void* to) {
  using T = typename C::T;
  const ConvShape& s = p.s;
  const int quad = threadIdx.x & 3;
  T* y = static_cast<T*>(to) + w.t * s.y_frame + (w.phase / 2) * s.y_phase_row +
         (w.phase % 2) * s.y_phase_column;
#pragma unroll
  for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const ConvPlace place = conv90_place<C>(p, group, mi, half);
      const int i = w.row + place.row, j = w.column + place.column;
      const bool inside = i < s.height && j < s.width;
      T* at = y + i * s.y_row + j * s.y_column;
      if constexpr (C::kN < 32) {
#pragma unroll
        for (int c = 0; c < C::kN; c += 8)
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const int o = w.n + c + quad * 2 + k;
            if (inside && o < s.co) at[o] = static_cast<T>(acc[mi][c / 2 + half * 2 + k]);
          }
      } else {  // co is a multiple of 8
#pragma unroll
        for (int b0 = 0; b0 < C::kN / 8; b0 += 4) {
          uint32_t v[4];
#pragma unroll
          for (int b = 0; b < 4; ++b) {
            const int block = b0 + b < C::kN / 8 ? b0 + b : b0;  // 88 channels end within four blocks
            v[b] = pack2(acc[mi][block * 4 + half * 2], acc[mi][block * 4 + half * 2 + 1], T{});
          }
          transpose_quad(v);
          const int o = w.n + (b0 + quad) * 8;
          if (inside && b0 + quad < C::kN / 8 && o < s.co)
            *reinterpret_cast<uint4*>(at + o) = make_uint4(v[0], v[1], v[2], v[3]);
        }
      }
    }
}

// For bf16: x/2·(1 + tanh(x/2)), whose one approximate instruction has a smaller error
// than the result's rounding.
__device__ inline float conv90_silu(float x, __nv_bfloat16) {
  const float half = 0.5f * x;
  return fmaf(half, tanh_approx(half), half);
}
__device__ inline float conv90_silu(float x, __half) { return x * sigmoid<true>(x); }

// Writes the norm of each position over its channels, which all lie in this tile; those beyond Co are zeros.
template <class C>
__device__ inline void conv90_normalise(const Conv90Params& p, float (&acc)[C::kMi][C::kN / 2]) {
  using T = typename C::T;
  const int quad = threadIdx.x & 3;
  float scale[C::kMi][2];
#pragma unroll
  for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0;
#pragma unroll
      for (int b = 0; b < C::kN / 8; ++b) {
        const float x = acc[mi][b * 4 + half * 2], y = acc[mi][b * 4 + half * 2 + 1];
        sum = fmaf(x, x, fmaf(y, y, sum));
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      scale[mi][half] = p.root / fmaxf(sqrtf(sum), 1e-12f);
    }
#pragma unroll
  for (int b = 0; b < C::kN / 8; ++b) {
    const int channel = b * 8 + quad * 2;
    float2 g = {};
    if (channel < p.s.co) g = __ldg(reinterpret_cast<const float2*>(p.gamma + channel));
#pragma unroll
    for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float& value = acc[mi][b * 4 + half * 2 + k];
          const float n = value * scale[mi][half] * (k ? g.y : g.x);
          value = p.silu ? conv90_silu(n, T{}) : n;
        }
  }
}

// Adds the residual to acc: 16-bit numbers, which come through A steps of kChannels channels each.
template <class C, int kChannels>
__device__ inline void conv90_add_residual(const Conv90Params& p, float (&acc)[C::kMi][C::kN / 2], int group,
                                           const char* a, uint64_t* full_a, uint64_t* empty_a,
                                           RingPlace<C::kASteps>& place) {
  using T = typename C::T;
  const int quad = threadIdx.x & 3;
#pragma unroll
  for (int c0 = 0; c0 < C::kN; c0 += kChannels) {
    barrier_wait(full_a + place.index, place.parity);
    const char* step = a + place.index * C::kABytes;
#pragma unroll
    for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = conv90_place<C>(p, group, mi, half).box_row;
#pragma unroll
        for (int c = 0; c < kChannels && c0 + c < C::kN; c += 8) {
          const float2 add = unpack2(conv90_pair<kChannels * 2>(step, row, c + quad * 2), T{});
          const int at = (c0 + c) / 2 + half * 2;
          acc[mi][at] += add.x, acc[mi][at + 1] += add.y;
        }
      }
    __syncwarp();
    conv90_release(empty_a + place.index);
    place.next();
  }
}

// Writes sums + bias + residual to y, and their norm over the channels to normed.
template <class C>
__device__ inline void conv90_finish(const Conv90Params& p, const Conv90Work& w,
                                     float (&acc)[C::kMi][C::kN / 2], int group, const char* a,
                                     uint64_t* full_a, uint64_t* empty_a, RingPlace<C::kASteps>& place) {
  const ConvShape& s = p.s;
  const int quad = threadIdx.x & 3;
  const float* bias = static_cast<const float*>(s.bias);
  if (bias) {
#pragma unroll
    for (int b = 0; b < C::kN / 8; ++b) {
      const int channel = w.n + b * 8 + quad * 2;
      const float x = channel < s.co ? __ldg(bias + channel) : 0.0f;
      const float y = channel + 1 < s.co ? __ldg(bias + channel + 1) : 0.0f;
#pragma unroll
      for (int mi = 0; mi < C::kMi; ++mi) {
        acc[mi][b * 4] += x, acc[mi][b * 4 + 1] += y;
        acc[mi][b * 4 + 2] += x, acc[mi][b * 4 + 3] += y;
      }
    }
  }
  if (s.residual) conv90_add_residual<C, C::kChunk>(p, acc, group, a, full_a, empty_a, place);
  if (s.y) conv90_write<C>(p, w, acc, group, s.y);
  if constexpr (C::kN % 32 == 0)
    if (p.normed) {
      conv90_normalise<C>(p, acc);
      conv90_write<C>(p, w, acc, group, p.normed);
    }
}

template <class C>
__device__ inline void conv90_multiply(const Conv90Params& p, char* a, char* b, uint64_t* full_a,
                                       uint64_t* empty_a, uint64_t* full_b, uint64_t* empty_b) {
  using T = typename C::T;
  const int group = threadIdx.x / 128 - 1;
  RingPlace<C::kASteps> pa;
  RingPlace<C::kBSteps> pb;
  const uint32_t a_base = shared_address(a) + group * (C::kMi * 64 * C::kRowBytes),
                 b_base = shared_address(b);
  const uint32_t row_bytes = C::kRowBytes << p.columns_log2;
  for (int index = blockIdx.x; index < p.work; index += gridDim.x) {
    const Conv90Work w(p, index, C{});
    float acc[C::kMi][C::kN / 2];
    if (w.a_steps == 0) {
#pragma unroll
      for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
        for (int i = 0; i < C::kN / 2; ++i) acc[mi][i] = 0;
    }
    int last_a = -1, last_b = -1;
    int accumulate = 0;
    for (int s = 0; s < w.a_steps; ++s) {
      barrier_wait(full_a + pa.index, pa.parity);
      uint32_t a_at = a_base + pa.index * C::kABytes;
#pragma unroll
      for (int tap = 0; tap < C::kTaps; ++tap, a_at += row_bytes) {
        barrier_wait(full_b + pb.index, pb.parity);
        const uint64_t db = matrix_descriptor<C::kRowBytes>(b_base + pb.index * C::kBPitch);
        const uint64_t da = matrix_descriptor<C::kRowBytes>(a_at);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < C::kChunk / 16; ++k) {
#pragma unroll
          for (int mi = 0; mi < C::kMi; ++mi)
            wgmma<C::kN, T>(acc[mi], da + ((mi * 64 * C::kRowBytes + k * 32) >> 4), db + (k * 32 >> 4),
                            accumulate);
          accumulate = 1;
        }
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
    wgmma_wait<0>();
    if (w.a_steps > 0) {
      conv90_release(empty_b + last_b);
      conv90_release(empty_a + last_a);
    }
    conv90_finish<C>(p, w, acc, group, a, full_a, empty_a, pa);
  }
}

// One thread calls it before the block's others go on.
template <class C>
__device__ inline void conv90_init_barriers(uint64_t* full_a, uint64_t* empty_a, uint64_t* full_b,
                                            uint64_t* empty_b) {
  constexpr int kWarps = 8;  // number of warps that release a step
  for (int i = 0; i < C::kASteps; ++i) barrier_init(full_a + i, 1), barrier_init(empty_a + i, kWarps);
  for (int i = 0; i < C::kBSteps; ++i) barrier_init(full_b + i, 1), barrier_init(empty_b + i, kWarps);
  barrier_init_fence();
}

template <class C>
__global__ void __launch_bounds__(384, 1)
    conv_sm90(const __grid_constant__ CUtensorMap chunk, const __grid_constant__ CUtensorMap cache,
              const __grid_constant__ CUtensorMap residual, const __grid_constant__ CUtensorMap weights,
              const __grid_constant__ Conv90Params p) {
  extern __shared__ char shared[];
  __shared__ uint64_t full_a[C::kASteps], empty_a[C::kASteps], full_b[C::kBSteps], empty_b[C::kBSteps];
  // The swizzle depends on address bits, so buffers begin at multiples of its period.
  char* a = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* b = a + C::kASteps * C::kABytes;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  if (threadIdx.x == 0) {
    conv90_init_barriers<C>(full_a, empty_a, full_b, empty_b);
    tma_prefetch(&chunk), tma_prefetch(&cache), tma_prefetch(&residual), tma_prefetch(&weights);
  }
  __syncthreads();
  if (warp < 4) {
    give_registers<40>();  // (168 − 40)·128 = (232 − 168)·256: the block starts with 168 per thread
    if (warp == 0 && threadIdx.x % 32 == 0) conv90_load_a<C>(p, chunk, cache, residual, a, full_a, empty_a);
    if (warp == 1 && threadIdx.x % 32 == 0) conv90_load_b<C>(p, weights, b, full_b, empty_b);
  } else {
    take_registers<232>();
    conv90_multiply<C>(p, a, b, full_a, empty_a, full_b, empty_b);
  }
}

}  // namespace tachy::device
