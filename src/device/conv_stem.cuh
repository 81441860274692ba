// The convolution that reads pixels: 3x3x3, 3 channels → many. Writing its output takes most of its time.
//
// K is 81, too small for boxes of channels. In shared memory the 9 values (column tap, channel) of a row tap
// lie side by side, so a K step of 8 consists of the first 8 of them, straight from the halo; the ninth
// values of all nine row taps form one more step of 16 (9 used). So the kernel multiplies 88 values for 81.
//
//   block   8 x 16 positions of one frame x 96 channels; 4 warps of 32 positions
//   shared  3 frames of 10 rows x 18 positions x 3 (T), weights [step, channel, k]
#pragma once

#include "device/conv_pack.cuh"
#include "device/conv_sm80.cuh"

namespace tachy::device {

constexpr int kStemCi = 3, kStemN = 96, kStemRows = 8, kStemColumns = 16, kStemThreads = 128;
constexpr int kStemRow = (kStemColumns + 2) * kStemCi, kStemFrame = (kStemRows + 2) * kStemRow;

__device__ inline void multiply8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, __nv_bfloat16) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
#else
  asm volatile("trap;");  // sm_75 has no bf16
#endif
}
__device__ inline void multiply8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

template <class T>
__global__ void __launch_bounds__(kStemThreads) conv_stem(const Conv80Params p) {
  __shared__ uint16_t x[3 * kStemFrame + 2];
  __shared__ __align__(16) uint16_t w[9][kStemN][8], ninth[kStemN][16];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, quad = lane & 3;
  const int tiles_w = (p.s.width + kStemColumns - 1) / kStemColumns;
  const int row = blockIdx.x / tiles_w * kStemRows, column = blockIdx.x % tiles_w * kStemColumns;
  const int n0 = blockIdx.y * kStemN, channels = min(kStemN, p.s.co - n0);

  const auto* weights = static_cast<const uint16_t*>(p.weights) + static_cast<long long>(n0) * p.k;
  for (int i = threadIdx.x; i < kStemN * 16; i += kStemThreads) ninth[i / 16][i % 16] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < kStemN * 81; i += kStemThreads) {
    const int o = i / 81, k = i % 81, step = k / 9, e = k % 9;
    const uint16_t value = o < channels ? weights[o * p.k + k] : uint16_t{0};
    if (e < 8)
      w[step][o][e] = value;
    else
      ninth[o][step] = value;
  }

  // Frames pass through a ring of three, so that each is read from memory once.
  const auto load = [&](int frame) {
    const ConvPosition at{frame, row - 1, column - 1, true};
    uint16_t* to = x + (frame + 6) % 3 * kStemFrame;
    for (int i = threadIdx.x; i < kStemFrame; i += kStemThreads) {
      const int r = i / kStemRow, c = i % kStemRow;
      const uint16_t* pixel = conv_pixel<uint16_t>(p, at, 0, r, c / kStemCi);
      to[i] = pixel ? pixel[c % kStemCi] : uint16_t{0};
    }
  };
  load(-2), load(-1);
  for (int t = 0; t < p.s.frames; ++t) {
    load(t);
    __syncthreads();
    float acc[2][kStemN / 8][4] = {};
    // A thread's positions are rows 2·warp + m of the block, columns lane/4 and lane/4 + 8.
    const int base = 2 * warp * kStemRow + lane / 4 * kStemCi;
#pragma unroll
    for (int step = 0; step < 9; ++step) {
      const uint16_t* from = x + (t + step / 3 + 4) % 3 * kStemFrame + base + step % 3 * kStemRow + quad * 2;
      uint32_t a[2][2];
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint16_t* v = from + m * kStemRow + half * 8 * kStemCi;
          a[m][half] = v[0] | static_cast<uint32_t>(v[1]) << 16;
        }
#pragma unroll
      for (int j = 0; j < kStemN / 8; ++j) {
        const uint32_t b = *reinterpret_cast<const uint32_t*>(&w[step][j * 8 + lane / 4][quad * 2]);
#pragma unroll
        for (int m = 0; m < 2; ++m) multiply8(acc[m][j], a[m][0], a[m][1], b, T{});
      }
    }
    {
      const auto value = [&](int m, int half, int k) {  // the ninth value of row tap k
        return k < 9 ? static_cast<uint32_t>(x[(t + k / 3 + 4) % 3 * kStemFrame + base +
                                               (m + k % 3) * kStemRow + half * 8 * kStemCi + 8])
                     : 0u;
      };
      uint32_t a[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int k = e / 2 * 8 + quad * 2;
          a[m][e] = value(m, e % 2, k) | value(m, e % 2, k + 1) << 16;
        }
#pragma unroll
      for (int j = 0; j < kStemN / 8; ++j) {
        const auto* b = reinterpret_cast<const uint32_t*>(&ninth[j * 8 + lane / 4][quad * 2]);
#pragma unroll
        for (int m = 0; m < 2; ++m) mma<T>(acc[m][j], a[m], b[0], b[4]);
      }
    }
    const float* bias = static_cast<const float*>(p.s.bias);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row + 2 * warp + m, j = column + lane / 4 + half * 8;
        T* y = static_cast<T*>(p.s.y) + t * p.s.y_frame + i * p.s.y_row + j * p.s.y_column + n0;
        const bool inside = i < p.s.height && j < p.s.width;
#pragma unroll
        for (int b0 = 0; b0 < kStemN / 8; b0 += 4) {  // co is a multiple of 8: 16-byte stores
          uint32_t v[4];
#pragma unroll
          for (int b = 0; b < 4; ++b) {
            const int o = (b0 + b) * 8 + quad * 2;
            float2 sum = {acc[m][b0 + b][half * 2], acc[m][b0 + b][half * 2 + 1]};
            if (bias && o < channels) sum.x += bias[n0 + o], sum.y += bias[n0 + o + 1];
            v[b] = pack2(sum.x, sum.y, T{});
          }
          transpose_quad(v);
          const int o = (b0 + quad) * 8;
          if (inside && o < channels) *reinterpret_cast<uint4*>(y + o) = make_uint4(v[0], v[1], v[2], v[3]);
        }
      }
    __syncthreads();  // the next frame takes the place of the oldest one
  }
}

}  // namespace tachy::device
