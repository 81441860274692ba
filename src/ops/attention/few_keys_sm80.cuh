// Attention with few keys, such as a prompt's keys for a video's queries, for sm_80 and later. It
// is memory bound (4·D bytes per query and head against 4·Lk·D flops), so the keys stay and the
// queries stream past them:
//
//   block: K, V and the key biases of one head in shared memory, loaded once
//   warp:  16 queries at a time, while its next 16 are loaded (cp.async); no barrier but its own.
//          S = Q·Kᵀ is whole in registers, so softmax is one step; O = P·V leaves through the queries' place
//
// Keys past Lk, up to the next of the kernel's sizes, have a bias of -inf. As in flash_sm80.cuh, scores, sums
// and the output are in float32, and probabilities in T.
#pragma once

#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

constexpr int kFewRows = 16;  // queries that a warp holds

template <int kWarps, int kKeys, int kDim>
constexpr size_t few_keys_shared_bytes() {
  return size_t(2 * kKeys + kWarps * 2 * kFewRows) * kDim * 2 + kKeys * sizeof(float);
}

// Loads 16 rows from `first` on with one warp, swizzled as in load_rows.
template <class T, int kDim>
__device__ void load_warp_rows(uint32_t to, const T* from, int64_t stride, int first, int limit, int d,
                               int lane) {
  constexpr int kChunks = kDim / 8, kStep = 32 / kChunks;
  const int column = lane % kChunks;
#pragma unroll
  for (int i = 0; i < kFewRows / kStep; ++i) {
    const int row = lane / kChunks + i * kStep;
    const bool present = column * 8 < d && first + row < limit;
    const T* p = present ? from + int64_t(first + row) * stride + column * 8 : from;
    device::copy_async(to + row * kDim * 2 + ((column ^ (row & 7)) << 4), p, present);
  }
}

// grid [H, y, B]: y blocks share a head's queries. Neighbouring blocks have neighbouring heads, because a
// query's heads lie side by side in memory, and reads at the same time are fastest from the same pages.
template <class T, int kDim, int kKeys, int kWarps, int kBlocks>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) few_keys_kernel(const Params p) {
  extern __shared__ __align__(1024) char shared[];
  constexpr int kThreads = kWarps * 32, kTiles = kKeys / 8;
  constexpr uint32_t kRowBytes = kDim * 2, kQueryBytes = kFewRows * kRowBytes;
  const int head = blockIdx.x, batch = blockIdx.z, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const T* q = static_cast<const T*>(p.q) + batch * p.qs.batch + head * p.qs.head;
  const T* k = static_cast<const T*>(p.k) + batch * p.ks.batch + head * p.ks.head;
  const T* v = static_cast<const T*>(p.v) + batch * p.vs.batch + head * p.vs.head;
  T* out = static_cast<T*>(p.out) + batch * p.os.batch + head * p.os.head;
  const uint32_t k_shared = device::shared_address(shared), v_shared = k_shared + kKeys * kRowBytes,
                 q_shared = v_shared + kKeys * kRowBytes + warp * 2 * kQueryBytes;
  char* q_place = shared + 2 * kKeys * kRowBytes + warp * 2 * kQueryBytes;
  auto* key_bias = reinterpret_cast<float*>(shared + (2 * kKeys + kWarps * 2 * kFewRows) * kRowBytes);

  const int step = gridDim.y * kWarps * kFewRows;
  int first = (blockIdx.y * kWarps + warp) * kFewRows;
  load_rows<T, kDim, kKeys, kThreads>(k_shared, k, p.ks.row, 0, p.lk, p.d);
  load_rows<T, kDim, kKeys, kThreads>(v_shared, v, p.vs.row, 0, p.lk, p.d);
  load_warp_rows<T, kDim>(q_shared, q, p.qs.row, first, p.lq, p.d, lane);
  device::commit_copies();
  for (int j = threadIdx.x; j < kKeys; j += kThreads)
    key_bias[j] = j >= p.lk    ? -INFINITY
                  : p.key_bias ? bias_to_log2(p.key_bias[batch * p.key_bias_batch + j])
                               : 0.0f;
  device::wait_copies<0>();
  __syncthreads();

  // The rows and chunks that this lane passes to ldmatrix, like those in attention_kernel.
  const int row_a = lane & 15, half_a = lane >> 4, row_b = (lane & 7) + ((lane >> 4) << 3),
            half_b = (lane >> 3) & 1;
  const uint32_t a_offset = row_a * kRowBytes + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t b_offset = row_b * kRowBytes + ((half_b ^ (row_b & 7)) << 4);
  const float to_log2 = p.scale * kLog2e;

  for (int turn = 0; first < p.lq; first += step, turn ^= 1) {
    const uint32_t here = q_shared + turn * kQueryBytes;
    device::wait_copies<0>();
    __syncwarp();
    if (first + step < p.lq)
      load_warp_rows<T, kDim>(q_shared + (turn ^ 1) * kQueryBytes, q, p.qs.row, first + step, p.lq, p.d,
                              lane);
    device::commit_copies();

    float s[kTiles][4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
    for (int at = 0; at < kDim / 16; ++at) {
      uint32_t a[4];
      device::load_tiles(a, (here + a_offset) ^ (at << 5));
#pragma unroll
      for (int n = 0; n < kTiles / 2; ++n) {
        uint32_t b[4];
        device::load_tiles(b, ((k_shared + b_offset) ^ (at << 5)) + n * 16 * kRowBytes);
        device::mma<T>(s[2 * n], a, b[0], b[1]);
        device::mma<T>(s[2 * n + 1], a, b[2], b[3]);
      }
    }

    // Rows g and g + 8 of this lane's quad.
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float2 add = *reinterpret_cast<const float2*>(key_bias + 8 * n + 2 * (lane & 3));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = fmaf(s[n][i], to_log2, i & 1 ? add.y : add.x);
        top[i >> 1] = fmaxf(top[i >> 1], s[n][i]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 2));
    }
    const float minus[2] = {top[0] == -INFINITY ? 0.0f : -top[0], top[1] == -INFINITY ? 0.0f : -top[1]};

    float o[kDim / 8][4];
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] = 0;
#pragma unroll
    for (int at = 0; at < kKeys / 16; ++at) {
      uint32_t a[4];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float e0 = device::exp2_approx(s[2 * at + half][2 * r] + minus[r]),
                      e1 = device::exp2_approx(s[2 * at + half][2 * r + 1] + minus[r]);
          sum[r] += e0 + e1;
          a[half * 2 + r] = device::pack_pair<T>(e0, e1);
        }
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t b[4];
        device::load_tiles_transposed(b, ((v_shared + a_offset) ^ (n << 5)) + at * 16 * kRowBytes);
        device::mma<T>(o[2 * n], a, b[0], b[1]);
        device::mma<T>(o[2 * n + 1], a, b[2], b[3]);
      }
    }

    char* place = q_place + turn * kQueryBytes;
    __syncwarp();  // every lane has read its queries
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 2);
      const float inverse = sum[r] > 0 ? 1.0f / sum[r] : 0.0f;
      const int row = (lane >> 2) + 8 * r;
      if (p.lse && (lane & 3) == 0 && first + row < p.lq)
        p.lse[batch * p.lse_batch + head * p.lse_head + first + row] =
            sum[r] > 0 ? (top[r] == kLowest ? kLowest : top[r] * kLn2) + logf(sum[r]) : -INFINITY;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n)
        reinterpret_cast<uint32_t*>(place + row * kRowBytes + ((n ^ (row & 7)) << 4))[lane & 3] =
            device::pack_pair<T>(o[n][2 * r] * inverse, o[n][2 * r + 1] * inverse);
    }
    __syncwarp();
    constexpr int kChunks = kDim / 8, kStep = 32 / kChunks;
    const int column = lane % kChunks;
#pragma unroll
    for (int i = 0; i < kFewRows / kStep; ++i) {
      const int row = lane / kChunks + i * kStep;
      if (first + row < p.lq && column * 8 < p.d)
        *reinterpret_cast<uint4*>(out + int64_t(first + row) * p.os.row + column * 8) =
            *reinterpret_cast<const uint4*>(place + row * kRowBytes + ((column ^ (row & 7)) << 4));
    }
  }
}

}  // namespace tachy::ops::flash
