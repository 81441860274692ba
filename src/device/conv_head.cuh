// The convolution that makes pixels: 3x3x3, 96 channels → 3, in one pass over its input.
//
// As an implicit GEMM it would read each input 27 times for 3 columns of tensor-core work. Here each input
// frame is multiplied once: G_r[position, (p, q, o)] = Σ_c x[position, c]·W[o, c, r, p, q], 27 columns for
// each frame tap r, and the sum over (p, q) becomes a sum over neighbours of G in shared memory:
//   y[t, i, j, o] = bias + Σ_r Σ_{p, q} G_r of frame t + r − 2 [(i + p − 1, j + q − 1), (p, q, o)]
//
//   block   8 x 16 outputs of all frames, one after the other; 6 warps
//   frame   10 x 18 positions by cp.async; the next one is loaded while this one is multiplied (2 buffers)
//   warp w  positions 32w … 32w + 31 x 32 columns x 3 frame taps: sums of the three outputs that a frame is
//           part of stay in registers until the last of their frames; only then they become G, which takes
//           the frame's place in shared memory (rows past the 180th repeat it; their sums are unused)
#pragma once

#include "device/conv_sm80.cuh"

namespace tachy::device {

constexpr int kHeadCi = 96, kHeadCo = 3, kHeadRows = 8, kHeadColumns = 16;
constexpr int kHeadThreads = 192, kHeadPitch = kHeadCi * 2 + 16;  // bytes; no bank conflicts
constexpr int kHeadHalo = kHeadColumns + 2, kHeadPositions = (kHeadRows + 2) * kHeadHalo;
constexpr int kHeadFrameBytes = kHeadPositions * kHeadPitch;
constexpr int kHeadSteps = kHeadCi / 16, kHeadWeightBytes = 3 * kHeadSteps * 2 * 32 * 16;
constexpr int kHeadSharedBytes = 2 * kHeadFrameBytes + kHeadWeightBytes;
static_assert(kHeadPositions * 27 * 4 <= kHeadFrameBytes);

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
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * kHeadRows, column = blockIdx.x * kHeadColumns;
  const int first = -p.s.history;
  head_load<T>(p, first, row - 1, column - 1, base);
  commit_copies();

  // Weights in the order in which a lane needs them for two blocks of 8 columns: one 16-byte read per frame
  // tap, K step and pair.
  uint4* weights = reinterpret_cast<uint4*>(shared + 2 * kHeadFrameBytes);
  for (int i = threadIdx.x; i < kHeadWeightBytes / 16; i += kHeadThreads) {
    const int at = i % 32, pair = i / 32 % 2, s = i / 64 % kHeadSteps, r = i / 64 / kHeadSteps;
    uint32_t v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int n = (pair * 2 + k / 2) * 8 + at / 4, tap = n / kHeadCo, o = n % kHeadCo;
      const T* from = static_cast<const T*>(p.weights) + o * p.k + (r * 9 + tap) * kHeadCi + s * 16 +
                      at % 4 * 2 + k % 2 * 8;
      v[k] = n < 27 ? *reinterpret_cast<const uint32_t*>(from) : 0;
    }
    weights[i] = make_uint4(v[0], v[1], v[2], v[3]);
  }

  float acc[3][2][4][4] = {};  // sums of outputs frame, frame + 1, frame + 2
  for (int frame = first; frame < p.s.frames; ++frame) {
    const int buffer = (frame - first) & 1;
    wait_copies<0>();
    __syncthreads();
    if (frame + 1 < p.s.frames)
      head_load<T>(p, frame + 1, row - 1, column - 1, base + (buffer ^ 1) * kHeadFrameBytes);
    commit_copies();
    const uint32_t frame_at = base + buffer * kHeadFrameBytes + lane / 16 * 16;
    const uint32_t x_at[2] = {frame_at + min(warp * 32 + lane % 16, kHeadPositions - 1) * kHeadPitch,
                              frame_at + min(warp * 32 + 16 + lane % 16, kHeadPositions - 1) * kHeadPitch};
#pragma unroll
    for (int s = 0; s < kHeadSteps; ++s) {
      uint32_t a[2][4];
      load_matrices(a[0], x_at[0] + s * 32);
      load_matrices(a[1], x_at[1] + s * 32);
#pragma unroll
      for (int r = 0; r < 3; ++r) {
        const int t = frame + 2 - r;
        if (t < 0 || t >= p.s.frames) continue;
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          const uint4 w = weights[((r * kHeadSteps + s) * 2 + pair) * 32 + lane];
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            mma<T>(acc[2 - r][m][pair * 2], a[m], w.x, w.y);
            mma<T>(acc[2 - r][m][pair * 2 + 1], a[m], w.z, w.w);
          }
        }
      }
    }
    __syncthreads();
    if (frame >= 0) {
      float* g = reinterpret_cast<float*>(shared + buffer * kHeadFrameBytes);
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int b = 0; b < 4; ++b)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int position = warp * 32 + m * 16 + e / 2 * 8 + lane / 4, n = b * 8 + lane % 4 * 2 + e % 2;
            if (n < 27 && position < kHeadPositions) g[position * 27 + n] = acc[0][m][b][e];
          }
      __syncthreads();
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int index = threadIdx.x + v * kHeadThreads, position = index / kHeadCo, o = index % kHeadCo;
        const int i = position / kHeadColumns, j = position % kHeadColumns;
        const float* from = g + (i * kHeadHalo + j) * 27 + o;
        float sum = p.s.bias ? static_cast<const float*>(p.s.bias)[o] : 0.0f;
#pragma unroll
        for (int tap = 0; tap < 9; ++tap) sum += from[(tap / 3 * kHeadHalo + tap % 3) * 27 + tap * kHeadCo];
        if (row + i < p.s.height && column + j < p.s.width)
          static_cast<T*>(
              p.s.y)[frame * p.s.y_frame + (row + i) * p.s.y_row + (column + j) * p.s.y_column + o] =
              static_cast<T>(sum);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int b = 0; b < 4; ++b)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          acc[0][m][b][e] = acc[1][m][b][e], acc[1][m][b][e] = acc[2][m][b][e], acc[2][m][b][e] = 0;
  }
}

}  // namespace tachy::device
