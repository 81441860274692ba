// The convolution that makes pixels: 3x3x3, 96 channels → 3, one pass over its input.
//
// As an implicit GEMM it would read each input 27 times for 3 columns of tensor-core work. Here each input
// frame is multiplied once: G_r[position, (p, q, o)] = Σ_c x[position, c]·W[o, c, r, p, q], 27 columns for
// each frame tap r, and the sum over (p, q) becomes a sum over neighbours of G in shared memory:
//   y[t, i, j, o] = bias + Σ_r Σ_{p, q} G_r of frame t + r − 2 [(i + p − 1, j + q − 1), (p, q, o)]
//
//   block   8 x 16 outputs of all frames, one after the other; 6 warps
//   frame   10 x 18 positions by cp.async, the next one's while this one is multiplied (2 buffers)
//   r       warp w: positions 32w … 32w + 31 x 32 columns (weights stay in registers) → G → each thread sums
//   two
//           outputs, which it keeps for three frames
#pragma once

#include "device/conv_sm80.cuh"

namespace tachy::device {

constexpr int kHeadCi = 96, kHeadCo = 3, kHeadRows = 8, kHeadColumns = 16;
constexpr int kHeadThreads = 192, kHeadPitch = kHeadCi * 2 + 16;  // bytes; no bank conflicts
constexpr int kHeadHalo = kHeadColumns + 2, kHeadPositions = (kHeadRows + 2) * kHeadHalo;
constexpr int kHeadFrameBytes = 192 * kHeadPitch;
constexpr int kHeadSharedBytes = 2 * kHeadFrameBytes + kHeadPositions * 27 * 4;

template <class T>
__device__ inline void head_load(const Conv80Params& p, int frame, int row, int column, uint32_t to) {
  constexpr int kPieces = kHeadCi / 8;
  const T* base = static_cast<const T*>(frame >= 0 ? p.x : p.cache) +
                  static_cast<long long>(frame >= 0 ? frame : p.s.cache_frames + frame) * p.s.in_height *
                      p.s.in_width * kHeadCi;
  for (int i = threadIdx.x; i < kHeadPositions * kPieces; i += kHeadThreads) {
    const int position = i / kPieces, piece = i % kPieces;
    const int y = row + position / kHeadHalo, x = column + position % kHeadHalo;
    const bool valid = y >= 0 && y < p.s.in_height && x >= 0 && x < p.s.in_width;
    copy_async(to + position * kHeadPitch + piece * 16,
               valid ? base + (static_cast<long long>(y) * p.s.in_width + x) * kHeadCi + piece * 8 : base,
               valid);
  }
}

template <class T>
__global__ void __launch_bounds__(kHeadThreads, 2) conv_head(const Conv80Params p) {
  extern __shared__ __align__(128) char shared[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  float* g = reinterpret_cast<float*>(shared + 2 * kHeadFrameBytes);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * kHeadRows, column = blockIdx.x * kHeadColumns;
  const int first = -p.s.history;

  constexpr int kSteps = kHeadCi / 16;
  uint32_t w[3][kSteps][4][2];
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const int n = b * 8 + lane / 4, tap = n / kHeadCo, o = n % kHeadCo;
        const T* from =
            static_cast<const T*>(p.weights) + o * p.k + (r * 9 + tap) * kHeadCi + s * 16 + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half)
          w[r][s][b][half] = n < 27 ? *reinterpret_cast<const uint32_t*>(from + half * 8) : 0;
      }

  head_load<T>(p, first, row - 1, column - 1, base);
  commit_copies();
  float sums[3][2] = {};  // of outputs frame, frame + 1, frame + 2
  for (int frame = first; frame < p.s.frames; ++frame) {
    const uint32_t x_at = base + ((frame - first) & 1) * kHeadFrameBytes;
    if (frame + 1 < p.s.frames)
      head_load<T>(p, frame + 1, row - 1, column - 1, base + ((frame + 1 - first) & 1) * kHeadFrameBytes);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 3; ++r) {
      const int t = frame + 2 - r;
      if (t < 0 || t >= p.s.frames) continue;
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        float acc[4][4] = {};
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          uint32_t a[4];
          load_matrices(a, x_at + (warp * 32 + m * 16 + lane % 16) * kHeadPitch + s * 32 + lane / 16 * 16);
#pragma unroll
          for (int b = 0; b < 4; ++b) mma<T>(acc[b], a, w[r][s][b][0], w[r][s][b][1]);
        }
#pragma unroll
        for (int b = 0; b < 4; ++b)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int position = warp * 32 + m * 16 + e / 2 * 8 + lane / 4, n = b * 8 + lane % 4 * 2 + e % 2;
            if (n < 27 && position < kHeadPositions) g[position * 27 + n] = acc[b][e];
          }
      }
      __syncthreads();
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int index = threadIdx.x + v * kHeadThreads, position = index / kHeadCo, o = index % kHeadCo;
        const float* from = g + (position / kHeadColumns * kHeadHalo + position % kHeadColumns) * 27 + o;
        float sum = 0;
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) sum += from[(tap / 3 * kHeadHalo + tap % 3) * 27 + tap * kHeadCo];
        sums[2 - r][v] += sum;
      }
      __syncthreads();
    }
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int index = threadIdx.x + v * kHeadThreads, position = index / kHeadCo, o = index % kHeadCo;
      const int i = row + position / kHeadColumns, j = column + position % kHeadColumns;
      if (frame >= 0 && i < p.s.height && j < p.s.width) {
        const float bias = p.s.bias ? static_cast<const float*>(p.s.bias)[o] : 0.0f;
        static_cast<T*>(p.s.y)[frame * p.s.y_frame + i * p.s.y_row + j * p.s.y_column + o] =
            static_cast<T>(sums[0][v] + bias);
      }
      sums[0][v] = sums[1][v], sums[1][v] = sums[2][v], sums[2][v] = 0;
    }
  }
}

}  // namespace tachy::device
