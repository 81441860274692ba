// The convolution that reads pixels in patches of 2x2: 3x3x3, 12 channels → many.
//
// K is 324. In shared memory the 36 values (column tap, channel) of a row tap lie side by side, so two K steps of 16
// come straight from the halo. The last 4 values of all nine row taps form three more steps of 16, 16 and 8 (4 used).
// So the kernel multiplies 328 values for 324.
//
//   block   16 x 16 positions of one frame x 80 channels, one frame after the other; 4 warps of 4 rows each
//   shared  weights in the order in which lanes read them; 4 frames of 18 rows x 18 positions x 12 (T), of which three are
//           multiplied while the fourth arrives
//   Row g of a product's 16 rows is column 2g of the tile, and row g + 8 is column 2g + 1. Neighbouring positions are 24
//   bytes apart, so eight of every second column lie in banks of their own.
#pragma once

#include "device/conv_pack.cuh"
#include "device/conv_sm80.cuh"
#include "device/conv_stem.cuh"

namespace tachy::device {

constexpr int kPatchStemCi = 12, kPatchStemN = 80, kPatchStemSide = 16, kPatchStemThreads = 128;
constexpr int kPatchStemRun = 3 * kPatchStemCi, kPatchStemRow = (kPatchStemSide + 2) * kPatchStemCi;
constexpr int kPatchStemFrame = (kPatchStemSide + 2) * kPatchStemRow;
// There are steps of 16, and channels are read in pairs of 8.
constexpr int kPatchStemSteps = 20, kPatchStemPairs = kPatchStemN / 16;
constexpr int kPatchStemWords = kPatchStemPairs * 32 * (kPatchStemSteps * 4 + 2);  // of weights, 4 bytes each
constexpr int kPatchStemSharedBytes = kPatchStemWords * 4 + 4 * kPatchStemFrame * 2;
static_assert(kPatchStemWords * 4 % 16 == 0 && kPatchStemRow % 2 == 0);

// Copies 8 bytes from global to shared memory; if `present` is false, writes zeros and reads nothing.
__device__ inline void copy_async8(uint32_t to, const void* from, bool present) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(present ? 8 : 0)
               : "memory");
#else
  const uint2 v = present ? *static_cast<const uint2*>(from) : uint2{};
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(v.x), "r"(v.y) : "memory");
#endif
}

// Two neighbouring values of a weight's row, for K step `step` (20 is the last one, of 8) and its values 2·quad + 8·high.
__device__ inline uint32_t patch_stem_weight(const uint16_t* row, int step, int quad, int high) {
  int k = step / 2 * kPatchStemRun + step % 2 * 16 + high * 8 + quad * 2;
  if (step >= 18) {
    const int row_tap = (step - 18) * 4 + high * 2 + quad / 2;
    if (row_tap >= 9) return 0;
    k = row_tap * kPatchStemRun + 32 + quad % 2 * 2;
  }
  return *reinterpret_cast<const uint32_t*>(row + k);
}

template <class T>
__device__ inline void patch_stem_weights(const Conv80Params& p, int n0, uint32_t* to) {
  const int channels = min(kPatchStemN, p.s.co - n0);
  for (int i = threadIdx.x; i < kPatchStemWords; i += kPatchStemThreads) {
    constexpr int kWhole = kPatchStemSteps * kPatchStemPairs * 128;
    // In a step of 16 a lane reads four words, two for each 8 channels, and in the last step half of them.
    const bool whole = i < kWhole;
    const int rest = whole ? i : i - kWhole, lane = whole ? rest / 4 % 32 : rest / 2 % 32;
    const int pair = whole ? rest / 128 % kPatchStemPairs : rest / 64, word = whole ? rest % 4 : rest % 2 * 2;
    const int o = pair * 16 + word / 2 * 8 + lane / 4;
    const auto* row = static_cast<const uint16_t*>(p.weights) + static_cast<long long>(n0 + o) * p.k;
    const int step = whole ? rest / 128 / kPatchStemPairs : kPatchStemSteps;
    to[i] = o < channels ? patch_stem_weight(row, step, lane % 4, word % 2) : 0;
  }
}

// Adds the products of one output frame, whose three input frames are given, for a warp's four rows of 16 positions.
template <class T>
__device__ inline void patch_stem_multiply(float (&acc)[4][kPatchStemN / 8][4], const uint32_t* weights,
                                           const uint16_t* const (&frames)[3]) {
  const int lane = threadIdx.x % 32, quad = lane & 3;
  const int base = threadIdx.x / 32 * 4 * kPatchStemRow + lane / 4 * 2 * kPatchStemCi;
  const auto word = [](const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); };
  const auto multiply = [&](int step, const uint16_t* low, const uint16_t* high) {
    uint32_t a[4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        a[m][e] = word((e / 2 ? high : low) + m * kPatchStemRow + e % 2 * kPatchStemCi);
#pragma unroll
    for (int pair = 0; pair < kPatchStemPairs; ++pair) {
      const uint4 b = reinterpret_cast<const uint4*>(weights)[(step * kPatchStemPairs + pair) * 32 + lane];
#pragma unroll
      for (int m = 0; m < 4; ++m)
        mma<T>(acc[m][2 * pair], a[m], b.x, b.y), mma<T>(acc[m][2 * pair + 1], a[m], b.z, b.w);
    }
  };
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll 1
    for (int row = 0; row < 3; ++row)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint16_t* from = frames[r] + base + row * kPatchStemRow + half * 16 + quad * 2;
        multiply((r * 3 + row) * 2 + half, from, from + 8);
      }
  // The last four values of row tap `tap`, of which lanes with an odd quad read the second two.
  const auto last = [&](int tap) {
    const uint16_t* frame = tap < 3 ? frames[0] : tap < 6 ? frames[1] : frames[2];
    return frame + base + tap % 3 * kPatchStemRow + 32 + quad % 2 * 2;
  };
#pragma unroll
  for (int step = 0; step < 2; ++step)
    multiply(18 + step, last(step * 4 + quad / 2), last(step * 4 + 2 + quad / 2));
  uint32_t a[4][2];
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      a[m][e] = quad < 2 ? word(last(8) + m * kPatchStemRow + e * kPatchStemCi) : 0u;
#pragma unroll
  for (int pair = 0; pair < kPatchStemPairs; ++pair) {
    const uint2 b =
        reinterpret_cast<const uint2*>(weights)[kPatchStemSteps * kPatchStemPairs * 64 + pair * 32 + lane];
#pragma unroll
    for (int m = 0; m < 4; ++m)
      multiply8(acc[m][2 * pair], a[m][0], a[m][1], b.x, T{}),
          multiply8(acc[m][2 * pair + 1], a[m][0], a[m][1], b.y, T{});
  }
}

// Stores one output frame. Two lanes exchange halves of a pair of 8 channels, so that each has 8 bytes of one of them
// and a quad writes 32 bytes in a row.
template <class T>
__device__ inline void patch_stem_store(const Conv80Params& p, int t, int row, int column, int n0,
                                        const float (&acc)[4][kPatchStemN / 8][4]) {
  const int lane = threadIdx.x % 32, quad = lane & 3;
  const bool odd = quad & 1;
  const float* bias = static_cast<const float*>(p.s.bias);
#pragma unroll
  for (int pair = 0; pair < kPatchStemPairs; ++pair) {
    float2 add[2] = {};
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int o = n0 + pair * 16 + b * 8 + quad * 2;
      if (bias && o < p.s.co) add[b] = make_float2(bias[o], bias[o + 1]);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = row + threadIdx.x / 32 * 4 + m, j = column + lane / 4 * 2 + half;
        uint32_t v[2];
#pragma unroll
        for (int b = 0; b < 2; ++b) {
          const float* sum = acc[m][2 * pair + b] + half * 2;
          v[b] = pack2(sum[0] + add[b].x, sum[1] + add[b].y, T{});
        }
        const uint32_t other = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
        const int o = n0 + pair * 16 + (odd ? 8 : 0) + quad / 2 * 4;
        if (i < p.s.height && j < p.s.width && o < p.s.co)
          *reinterpret_cast<uint2*>(static_cast<T*>(p.s.y) + t * p.s.y_frame + i * p.s.y_row +
                                    j * p.s.y_column + o) =
              odd ? make_uint2(other, v[1]) : make_uint2(v[0], other);
      }
  }
}

template <class T>
__global__ void __launch_bounds__(kPatchStemThreads, 2) conv_patch_stem(const Conv80Params p) {
  extern __shared__ __align__(128) char shared[];
  uint32_t* weights = reinterpret_cast<uint32_t*>(shared);
  auto* x = reinterpret_cast<uint16_t*>(shared + kPatchStemWords * 4);
  const int n0 = blockIdx.y * kPatchStemN;
  const int tiles_w = (p.s.width + kPatchStemSide - 1) / kPatchStemSide;
  const int tiles = tiles_w * ((p.s.height + kPatchStemSide - 1) / kPatchStemSide);
  patch_stem_weights<T>(p, n0, weights);
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int row = tile / tiles_w * kPatchStemSide, column = tile % tiles_w * kPatchStemSide;
    const auto place = [&](int frame) { return (frame & 3) * kPatchStemFrame; };
    const auto load = [&](int frame) {
      const ConvPosition at{frame, row - 1, column - 1, true};
      const uint32_t to = shared_address(x + place(frame));
      constexpr int kPieces = kPatchStemRow / 4;
      for (int i = threadIdx.x; i < (kPatchStemSide + 2) * kPieces; i += kPatchStemThreads) {
        const int r = i / kPieces, piece = i % kPieces;
        const uint16_t* pixel = conv_pixel<uint16_t>(p, at, 0, r, piece / 3);
        copy_async8(to + i * 8, pixel ? pixel + piece % 3 * 4 : static_cast<const uint16_t*>(p.x), pixel);
      }
    };
    __syncthreads();  // the tile before has been read
    load(-2), load(-1), load(0);
    commit_copies();
    for (int t = 0; t < p.s.frames; ++t) {
      wait_copies<0>();
      __syncthreads();  // frame t is there, and frame t − 3 has been read
      if (t + 1 < p.s.frames) load(t + 1);
      commit_copies();
      float acc[4][kPatchStemN / 8][4] = {};
      const uint16_t* const frames[3] = {x + place(t - 2), x + place(t - 1), x + place(t)};
      patch_stem_multiply<T>(acc, weights, frames);
      patch_stem_store<T>(p, t, row, column, n0, acc);
    }
  }
}

}  // namespace tachy::device
