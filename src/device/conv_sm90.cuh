// Implicit GEMM of a convolution on Hopper: wgmma fed by the bulk copy engine.
//
//   tile        M = 2·kMi·64 positions (a rectangle of one output frame) x kN output channels, float32 sums
//   K           for each frame tap r that has a frame, chunk of kChunk channels, column tap q, group of kTaps
//               row taps: one A step, within it for each row tap p: one B step
//   A step      box of the input frame where it lies (chunk or cache): (rows + kTaps − 1) x columns x kChunk.
//               A row tap is the same box read from p rows further on, so a 3x3 kernel loads 3 boxes, not 9.
//               What lies outside the frame arrives as zeros: that is the padding.
//   B step      kN x kChunk weights of one tap; blocks of a cluster of two, which compute neighbouring
//               rectangles, load half each for both
//
//   warp 0: A steps   warp 1: B steps   warpgroups 1, 2: kMi·64 positions each
//     A  [0][1][2]…  full/empty barriers        for A step:  wait A
//     B  [0][1][2][3]…                             for p:    wait B, kMi·kChunk/16 wgmma, commit,
//                                                            wait for the group before: release its steps
//   Blocks are persistent: loads of the next tile run while this one's sums are stored.
#pragma once

#include "device/conv_sm90_params.h"
#include "device/tma.cuh"
#include "device/wgmma.cuh"

namespace tachy::device {

template <class T_, int kTaps_, int kChunk_, int kN_, int kMi_, int kCluster_>
struct ConvTile90 {
  using T = T_;
  static constexpr int kTaps = kTaps_, kChunk = kChunk_, kN = kN_, kMi = kMi_, kCluster = kCluster_;
  static constexpr int kPositions = 2 * kMi * 64, kRowBytes = kChunk * 2;
  // 8 or 16 columns; the second needs more rows of halo for its size
  static constexpr int kABytes = (kPositions + 16 * (kTaps - 1)) * kRowBytes;
  static constexpr int kBBytes = kN * kRowBytes, kBPitch = (kBBytes + 1023) / 1024 * 1024;
  static constexpr int kBudget = 226 * 1024;
  static constexpr int kBSteps = kABytes * 3 + kBPitch * 4 > kBudget      ? 6
                                 : (kBudget - 3 * kABytes) / kBPitch > 12 ? 12
                                 : 2 * kTaps > 4                          ? 2 * kTaps
                                                                          : 4;
  static constexpr int kASteps = (kBudget - kBSteps * kBPitch) / kABytes > 6
                                     ? 6
                                     : (kBudget - kBSteps * kBPitch) / kABytes;
  static_assert(kASteps >= 2);
  static constexpr int kSharedBytes = 1024 + kASteps * kABytes + kBSteps * kBPitch;
};

// What a cluster tile index means. Frames run faster than rectangles, so that a frame is read while it is in
// the cache for its other taps; channel tiles and phases, which read the same input, run fastest.
struct Conv90Work {
  int n, phase, t, row, column;
  int first_tap, a_steps;
  template <class C>
  __device__ Conv90Work(const Conv90Params& p, int index, int rank, C) {
    n = index % p.tiles_n * C::kN, index /= p.tiles_n;
    phase = index % p.s.phases, index /= p.s.phases;
    t = index % p.s.frames, index /= p.s.frames;
    const int rectangle = index * C::kCluster + rank;
    column = rectangle % p.tiles_w << p.columns_log2;
    row = rectangle / p.tiles_w * (C::kPositions >> p.columns_log2);
    first_tap = max(0, p.s.front - p.s.history - t * p.s.time_stride);
    a_steps = max(0, p.s.kernel_t - first_tap) * p.chunks * p.s.kernel_w * (p.s.kernel_h / C::kTaps);
  }
};

// A place in a ring of kSteps buffers, and the parity of its current round.
template <int kSteps>
struct RingPlace {
  int index = 0;
  uint32_t parity = 0;
  __device__ void next() {
    if (++index == kSteps) index = 0, parity ^= 1;
  }
};

// Lanes c of a quad hold in v[b] pair c of block b; afterwards lane c holds in v[k] pair k of block c. Its
// own inverse.
__device__ inline void transpose_quad(uint32_t (&v)[4]) {
  const int lane = threadIdx.x & 3;
  const bool odd = lane & 1, high = lane & 2;
  const uint32_t r0 = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
  const uint32_t r1 = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  (odd ? v[0] : v[1]) = r0, (odd ? v[2] : v[3]) = r1;
  const uint32_t r2 = __shfl_xor_sync(~0u, high ? v[0] : v[2], 2);
  const uint32_t r3 = __shfl_xor_sync(~0u, high ? v[1] : v[3], 2);
  (high ? v[0] : v[2]) = r2, (high ? v[1] : v[3]) = r3;
}

__device__ inline uint32_t pack2(float a, float b, __nv_bfloat16) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t&>(v);
}
__device__ inline uint32_t pack2(float a, float b, __half) {
  const __half2 v = __floats2half2_rn(a, b);
  return reinterpret_cast<const uint32_t&>(v);
}
__device__ inline float2 unpack2(uint32_t v, __nv_bfloat16) {
  return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(v));
}
__device__ inline float2 unpack2(uint32_t v, __half) {
  return __half22float2(reinterpret_cast<const __half2&>(v));
}

template <class C>
__device__ inline void conv90_load_a(const Conv90Params& p, const CUtensorMap& chunk,
                                     const CUtensorMap& cache, char* a, uint64_t* full, uint64_t* empty,
                                     int rank, int first, int step) {
  RingPlace<C::kASteps> place;
  const int rows = C::kPositions >> p.columns_log2;
  const uint32_t bytes = ((rows + C::kTaps - 1) << p.columns_log2) * C::kRowBytes;
  const int groups = p.s.kernel_h / C::kTaps;
  for (int index = first; index < p.work; index += step) {
    const Conv90Work w(p, index, rank, C{});
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
  }
}

template <class C>
__device__ inline void conv90_load_b(const Conv90Params& p, const CUtensorMap& weights, char* b,
                                     uint64_t* full, uint64_t* empty, int rank, int first, int step) {
  RingPlace<C::kBSteps> place;
  for (int index = first; index < p.work; index += step) {
    const Conv90Work w(p, index, rank, C{});
    for (int r = w.first_tap; r < p.s.kernel_t; ++r)
      for (int c = 0; c < p.chunks; ++c)
        for (int q = 0; q < p.s.kernel_w; ++q)
          for (int row = 0; row < p.s.kernel_h; ++row) {
            const int k = ((r * p.s.kernel_h + row) * p.s.kernel_w + q) * p.padded_ci + c * C::kChunk;
            char* to = b + place.index * C::kBPitch;
            if constexpr (C::kCluster == 1) {
              barrier_wait(empty + place.index, place.parity ^ 1);
              barrier_expect(full + place.index, C::kBBytes);
              tma_load(to, &weights, full + place.index, k, w.n, w.phase);
            } else {
              barrier_wait_cluster(empty + place.index, place.parity ^ 1);
              barrier_expect(full + place.index, C::kBBytes);
              constexpr int kHalf = C::kN / C::kCluster;
              tma_load_shared(to + rank * kHalf * C::kRowBytes, &weights, full + place.index,
                              (1 << C::kCluster) - 1, k, w.n + rank * kHalf, w.phase);
            }
            place.next();
          }
  }
}

// Sums + bias + residual → y. A thread gathers 8 channels of a position from its quad: 16-byte accesses.
template <class C>
__device__ inline void conv90_store(const Conv90Params& p, const Conv90Work& w,
                                    float (&acc)[C::kMi][C::kN / 2], int group) {
  using T = typename C::T;
  const ConvShape& s = p.s;
  const int thread = threadIdx.x & 127, warp = thread / 32, lane = thread & 31, quad = lane & 3;
  const float* bias = static_cast<const float*>(s.bias);
  T* y = static_cast<T*>(s.y);
  const T* residual = static_cast<const T*>(s.residual);
#pragma unroll
  for (int mi = 0; mi < C::kMi; ++mi)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = (group * C::kMi + mi) * 64 + warp * 16 + half * 8 + lane / 4;
      const int i = w.row + (position >> p.columns_log2);
      const int j = w.column + (position & ((1 << p.columns_log2) - 1));
      const bool inside = i < s.height && j < s.width;
      const long long at = w.t * s.y_frame + i * s.y_row + j * s.y_column + (w.phase / 2) * s.y_phase_row +
                           (w.phase % 2) * s.y_phase_column;
      constexpr int kBlocks = C::kN / 8;
#pragma unroll
      for (int b0 = 0; b0 < kBlocks; b0 += 4) {
        if constexpr (kBlocks % 4 == 0) {  // co is a multiple of 8
          const int o = w.n + (b0 + quad) * 8;
          const bool mine = inside && o < s.co;
          uint32_t v[4], u[4] = {};
          if (residual) {
            if (mine) {
              const uint4 loaded = *reinterpret_cast<const uint4*>(residual + at + o);
              u[0] = loaded.x, u[1] = loaded.y, u[2] = loaded.z, u[3] = loaded.w;
            }
            transpose_quad(u);
          }
#pragma unroll
          for (int b = 0; b < 4; ++b) {
            float2 sum = {acc[mi][(b0 + b) * 4 + half * 2], acc[mi][(b0 + b) * 4 + half * 2 + 1]};
            const int channel = w.n + (b0 + b) * 8 + quad * 2;
            if (bias && channel < s.co) {
              const float2 add = __ldg(reinterpret_cast<const float2*>(bias + channel));
              sum.x += add.x, sum.y += add.y;
            }
            if (residual) {
              const float2 add = unpack2(u[b], T{});
              sum.x += add.x, sum.y += add.y;
            }
            v[b] = pack2(sum.x, sum.y, T{});
          }
          transpose_quad(v);
          if (mine) *reinterpret_cast<uint4*>(y + at + o) = make_uint4(v[0], v[1], v[2], v[3]);
        } else {
#pragma unroll
          for (int b = b0; b < kBlocks && b < b0 + 4; ++b)
#pragma unroll
            for (int k = 0; k < 2; ++k) {
              const int o = w.n + b * 8 + quad * 2 + k;
              if (!inside || o >= s.co) continue;
              float sum = acc[mi][b * 4 + half * 2 + k];
              if (bias) sum += bias[o];
              if (residual) sum += static_cast<float>(residual[at + o]);
              y[at + o] = static_cast<T>(sum);
            }
        }
      }
    }
}

template <class C>
__device__ inline void conv90_release(uint64_t* empty) {
  if ((threadIdx.x & 31) == 0) barrier_arrive(empty);
}
template <class C>
__device__ inline void conv90_release_b(uint64_t* empty) {
  if constexpr (C::kCluster == 1) {
    conv90_release<C>(empty);
  } else {
    if ((threadIdx.x & 31) < C::kCluster) barrier_arrive_at(empty, threadIdx.x & 31);
  }
}

template <class C>
__device__ inline void conv90_multiply(const Conv90Params& p, char* a, char* b, uint64_t* full_a,
                                       uint64_t* empty_a, uint64_t* full_b, uint64_t* empty_b, int rank,
                                       int first, int step) {
  using T = typename C::T;
  const int group = threadIdx.x / 128 - 1;
  RingPlace<C::kASteps> pa;
  RingPlace<C::kBSteps> pb;
  const uint32_t a_base = shared_address(a), b_base = shared_address(b);
  const uint32_t row_bytes = C::kRowBytes << p.columns_log2;
  for (int index = first; index < p.work; index += step) {
    const Conv90Work w(p, index, rank, C{});
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
      uint32_t a_at = a_base + pa.index * C::kABytes + group * (C::kMi * 64 * C::kRowBytes);
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
        if (last_b >= 0) conv90_release_b<C>(empty_b + last_b);
        if (tap == 0 && last_a >= 0) conv90_release<C>(empty_a + last_a);
        last_b = pb.index;
        pb.next();
      }
      last_a = pa.index;
      pa.next();
    }
    wgmma_wait<0>();
    if (w.a_steps > 0) {
      conv90_release_b<C>(empty_b + last_b);
      conv90_release<C>(empty_a + last_a);
    }
    conv90_store<C>(p, w, acc, group);
  }
}

template <class C>
__global__ void __launch_bounds__(384, 1)
    conv_sm90(const __grid_constant__ CUtensorMap chunk, const __grid_constant__ CUtensorMap cache,
              const __grid_constant__ CUtensorMap weights, const __grid_constant__ Conv90Params p) {
  extern __shared__ char shared[];
  __shared__ uint64_t full_a[C::kASteps], empty_a[C::kASteps], full_b[C::kBSteps], empty_b[C::kBSteps];
  // The swizzle follows address bits: buffers begin at multiples of its period.
  char* a = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* b = a + C::kASteps * C::kABytes;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  const int rank = C::kCluster == 1 ? 0 : static_cast<int>(cluster_rank());
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kASteps; ++i) barrier_init(full_a + i, 1), barrier_init(empty_a + i, 8);
    for (int i = 0; i < C::kBSteps; ++i)
      barrier_init(full_b + i, 1), barrier_init(empty_b + i, 8 * C::kCluster);
    barrier_init_fence();
    tma_prefetch(&chunk), tma_prefetch(&cache), tma_prefetch(&weights);
  }
  if constexpr (C::kCluster > 1)
    cluster_sync();
  else
    __syncthreads();
  const int first = blockIdx.x / C::kCluster, step = gridDim.x / C::kCluster;
  if (warp < 4) {
    give_registers<24>();
    if (warp == 0 && threadIdx.x % 32 == 0)
      conv90_load_a<C>(p, chunk, cache, a, full_a, empty_a, rank, first, step);
    if (warp == 1 && threadIdx.x % 32 == 0)
      conv90_load_b<C>(p, weights, b, full_b, empty_b, rank, first, step);
  } else {
    take_registers<240>();
    conv90_multiply<C>(p, a, b, full_a, empty_a, full_b, empty_b, rank, first, step);
  }
  if constexpr (C::kCluster > 1) {
    __syncwarp();
    cluster_sync();  // nobody leaves while the other may still write into or arrive at its memory
  }
}

}  // namespace tachy::device
