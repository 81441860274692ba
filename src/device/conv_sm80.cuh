// Implicit GEMM of a convolution with mma.sync (bf16, f16) and, for float32, with FMA. It takes any sizes and
// channels.
//
//   tile       128 positions (of all output frames in a row) x 64 output channels, 8 warps of 32 x 32
//   K          steps of 32: (tap, channel chunk), each 16-byte piece read in place, by cp.async, which
//              writes zeros for what is outside. Where Ci is no multiple of 8, K is flat (tap·Ci + channel);
//              then, and where memory is not aligned, pieces are gathered value by value
//   pipeline   3 steps in shared memory, rows of 64 bytes whose 16-byte pieces are swapped by row against
//              bank conflicts
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "device/conv_shape.h"
#include "device/mma_sm80.cuh"

namespace tachy::device {

struct Conv80Params {
  ConvShape s;
  const void *x, *cache, *weights;
  int padded_ci, k;  // padded_ci is 0 if K is flat
};

// The place in the input where a position of the output begins to read.
struct ConvPosition {
  int frame, row, column;  // coordinates in the input for tap 0
  bool inside;
};

__device__ inline ConvPosition conv_position(const ConvShape& s, long long m, int phase) {
  const int j = static_cast<int>(m % s.width), i = static_cast<int>(m / s.width % s.height);
  const long long t = m / s.width / s.height;
  return {static_cast<int>(t) * s.time_stride - s.front, i * s.stride - s.pad_top + phase / 2,
          j * s.stride - s.pad_left + phase % 2, t < s.frames};
}
__device__ inline long long conv_output(const ConvShape& s, long long m, int phase) {
  const int j = static_cast<int>(m % s.width), i = static_cast<int>(m / s.width % s.height);
  return m / s.width / s.height * s.y_frame + i * s.y_row + j * s.y_column + phase / 2 * s.y_phase_row +
         phase % 2 * s.y_phase_column;
}

// The channels of one tap's pixel, or null if it is zero.
template <class T>
__device__ inline const T* conv_pixel(const Conv80Params& p, const ConvPosition& at, int r, int row,
                                      int column) {
  const ConvShape& s = p.s;
  const int t = at.frame + r, i = at.row + row, j = at.column + column;
  if (!at.inside || t < -s.history || i < 0 || i >= s.in_height || j < 0 || j >= s.in_width) return nullptr;
  const T* base = static_cast<const T*>(t >= 0 ? p.x : p.cache);
  const long long frame = t >= 0 ? t : s.cache_frames + t;
  return base + ((frame * s.in_height + i) * s.in_width + j) * s.ci;
}

__device__ inline void load_matrices(uint32_t (&d)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(from)
               : "memory");
}
// A tap's indices, advanced by one K step at a time.
struct ConvTap {
  int r = 0, row = 0, column = 0, c = 0;
  __device__ void next(const Conv80Params& p) {
    if ((c += 32) < p.padded_ci) return;
    c = 0;
    if (++column < p.s.kernel_w) return;
    column = 0;
    if (++row < p.s.kernel_h) return;
    row = 0, ++r;
  }
};

// Reads value k of a position, in the weights' order.
template <class T>
__device__ inline T conv_value(const Conv80Params& p, const ConvPosition& at, int k) {
  const int per_tap = p.padded_ci ? p.padded_ci : p.s.ci;
  const int tap = k / per_tap, c = k - tap * per_tap, column = tap % p.s.kernel_w,
            row = tap / p.s.kernel_w % p.s.kernel_h, r = tap / p.s.kernel_w / p.s.kernel_h;
  if (r >= p.s.kernel_t || c >= p.s.ci) return T(0.0f);
  const T* pixel = conv_pixel<T>(p, at, r, row, column);
  return pixel ? pixel[c] : T(0.0f);
}

constexpr int kConv80M = 128, kConv80N = 64, kConv80Steps = 3;
// Byte offset of 16-byte piece `piece` of row `row`.
__device__ inline uint32_t conv80_offset(int row, int piece) {
  return static_cast<uint32_t>(row * 64 + ((piece ^ (row >> 1)) & 3) * 16);
}

template <class T, bool kGather>
__device__ inline void conv80_load(const Conv80Params& p, const ConvPosition (&at)[2], const ConvTap& tap,
                                   int step, int phase, char* a, char* b, uint32_t a_at, uint32_t b_at) {
  const int piece = threadIdx.x & 3, row = threadIdx.x >> 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t offset = conv80_offset(row + i * 64, piece);
    if constexpr (kGather) {
      union {
        T value[8];
        uint4 all;
      } v;
#pragma unroll
      for (int e = 0; e < 8; ++e) v.value[e] = conv_value<T>(p, at[i], step * 32 + piece * 8 + e);
      *reinterpret_cast<uint4*>(a + offset) = v.all;
    } else {
      const T* pixel = conv_pixel<T>(p, at[i], tap.r, tap.row, tap.column);
      const int c = tap.c + piece * 8;
      const bool valid = pixel && c < p.s.ci;
      copy_async(a_at + offset, valid ? pixel + c : static_cast<const T*>(p.x), valid);
    }
  }
  const int o = blockIdx.y * kConv80N + row;
  const T* weights = static_cast<const T*>(p.weights);
  const bool valid = o < p.s.co;
  copy_async(
      b_at + conv80_offset(row, piece),
      valid ? weights + (static_cast<long long>(phase) * p.s.co + o) * p.k + step * 32 + piece * 8 : weights,
      valid);
}

template <class T, bool kGather>
__global__ void __launch_bounds__(256) conv_sm80(const Conv80Params p) {
  __shared__ __align__(128) char shared[kConv80Steps * (kConv80M + kConv80N) * 64];
  constexpr int kPitch = (kConv80M + kConv80N) * 64;
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, phase = blockIdx.z;
  const long long m0 = static_cast<long long>(blockIdx.x) * kConv80M;
  ConvPosition at[2];
  for (int i = 0; i < 2; ++i) at[i] = conv_position(p.s, m0 + threadIdx.x / 4 + i * 64, phase);
  const int steps = p.k / 32;
  ConvTap tap;
  const auto load = [&](int step) {
    if (step < steps) {
      const int place = step % kConv80Steps * kPitch;
      conv80_load<T, kGather>(p, at, tap, step, phase, shared + place, shared + place + kConv80M * 64,
                              base + place, base + place + kConv80M * 64);
      if constexpr (!kGather) tap.next(p);
    }
    commit_copies();
  };
  for (int s = 0; s < kConv80Steps - 1; ++s) load(s);
  float acc[2][4][4] = {};
  const int wm = warp % 4 * 32, wn = warp / 4 * 32;
  for (int step = 0; step < steps; ++step) {
    wait_copies<kConv80Steps - 2>();
    __syncthreads();
    load(step + kConv80Steps - 1);
    const uint32_t a_at = base + step % kConv80Steps * kPitch, b_at = a_at + kConv80M * 64;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      uint32_t a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        load_matrices(a[i], a_at + conv80_offset(wm + i * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; ++i)  // 16 channels each, as (low k, high k) of the first 8 and then of the next
                                   // 8
        load_matrices(b[i],
                      b_at + conv80_offset(wn + i * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma<T>(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
  const float* bias = static_cast<const float*>(p.s.bias);
  const T* residual = static_cast<const T*>(p.s.residual);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const long long m = m0 + wm + i * 16 + half * 8 + lane / 4;
      if (m >= static_cast<long long>(p.s.frames) * p.s.height * p.s.width) continue;
      const long long y = conv_output(p.s, m, phase);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int o = blockIdx.y * kConv80N + wn + j * 8 + lane % 4 * 2 + k;
          if (o >= p.s.co) continue;
          float sum = acc[i][j][half * 2 + k];
          if (bias) sum += bias[o];
          if (residual) sum += static_cast<float>(residual[y + o]);
          static_cast<T*>(p.s.y)[y + o] = static_cast<T>(sum);
        }
    }
}

// float32 with plain FMA; a block has 64 positions x 64 channels, and each thread 4 x 4.
static __global__ void __launch_bounds__(256) conv_simple(const Conv80Params p) {
  constexpr int kStep = 16;
  __shared__ float a[kStep][64 + 4], b[kStep][64 + 4];
  const int phase = blockIdx.z, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const long long m0 = static_cast<long long>(blockIdx.x) * 64;
  const int row = threadIdx.x / 4, first = threadIdx.x % 4 * 4;  // this thread loads 4 values of a row
  const ConvPosition at = conv_position(p.s, m0 + row, phase);
  const int o = blockIdx.y * 64 + row;
  const float* weights =
      static_cast<const float*>(p.weights) + (static_cast<long long>(phase) * p.s.co + o) * p.k;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < p.k; k0 += kStep) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int k = k0 + first + e;
      a[first + e][row] = conv_value<float>(p, at, k);
      b[first + e][row] = o < p.s.co ? weights[k] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(a[k][ty * 4 + i], b[k][tx * 4 + j], acc[i][j]);
    __syncthreads();
  }
  const float* bias = static_cast<const float*>(p.s.bias);
  const float* residual = static_cast<const float*>(p.s.residual);
  for (int i = 0; i < 4; ++i) {
    const long long m = m0 + ty * 4 + i;
    if (m >= static_cast<long long>(p.s.frames) * p.s.height * p.s.width) continue;
    const long long y = conv_output(p.s, m, phase);
    for (int j = 0; j < 4; ++j) {
      const int channel = blockIdx.y * 64 + tx * 4 + j;
      if (channel >= p.s.co) continue;
      float sum = acc[i][j];
      if (bias) sum += bias[channel];
      if (residual) sum += residual[y + channel];
      static_cast<float*>(p.s.y)[y + channel] = sum;
    }
  }
}

}  // namespace tachy::device
