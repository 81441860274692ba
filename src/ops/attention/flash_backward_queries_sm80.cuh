// Computes dq in flash attention's backward pass, either from the sums that the single pass of
// flash_backward_sm80.cuh left, or by a separate kernel whose blocks own queries and go through the keys. In
// that kernel, as in the forward pass, a warp owns 32 queries; it takes 32 keys at a time, so that the tiles
// of both products fit beside the sums.
#pragma once

#include "ops/attention/flash_backward_sm80.cuh"

namespace tachy::ops::flash {

// Computes dq from the sums that the single pass left, for tiles of 64 queries; tiles before `begin` see no
// key.
template <class T, int kDim>
__global__ void __launch_bounds__(256) query_finish_kernel(const BackwardParams p, int begin) {
  constexpr int kColumns = kDim / 32;
  const int head = blockIdx.y, batch = blockIdx.z, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row_base = (static_cast<int64_t>(batch) * p.heads + head) * p.rows;
  const int row = blockIdx.x * 64;
  const float* from = p.sums + (row_base + row) * kDim + (warp * 2 * kColumns * 32 + lane) * 4;
  T* to = static_cast<T*>(p.dq) + batch * p.dqs.batch + head * p.dqs.head;
  const bool any = static_cast<int>(blockIdx.x) >= begin;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      float4 v = make_float4(0, 0, 0, 0);
      if (any) v = *reinterpret_cast<const float4*>(from + (m * kColumns + n) * 128);
      const int i = row + (warp & 1) * 32 + m * 16 + (lane >> 2);
      const int column = (warp >> 1) * (kDim / 4) + n * 8 + 2 * (lane & 3);
      if (column >= p.d) continue;
      if (i < p.lq)
        *reinterpret_cast<uint32_t*>(to + i * p.dqs.row + column) =
            device::pack_pair<T>(v.x * p.scale, v.y * p.scale);
      if (i + 8 < p.lq)
        *reinterpret_cast<uint32_t*>(to + (i + 8) * p.dqs.row + column) =
            device::pack_pair<T>(v.z * p.scale, v.w * p.scale);
    }
}

template <int kDim, int kWarps, int kStageKeys>
constexpr size_t query_shared_bytes() {
  return size_t(2 * kWarps * 32 + 4 * kStageKeys) * kDim * 2 + 2 * kStageKeys * sizeof(float);
}

// grid [query tiles, H, B].
template <class T, int kDim, int kWarps, int kStageKeys, int kBlocks>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) query_gradient_kernel(const BackwardParams p) {
  extern __shared__ __align__(1024) char shared[];
  constexpr int kThreads = kWarps * 32, kRows = kWarps * 32, kKeys = 32, kTiles = kKeys / 8;
  constexpr uint32_t kStageBytes = kStageKeys * kDim * 2, kTileBytes = kRows * kDim * 2;
  const int head = blockIdx.y, batch = blockIdx.z, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tile = p.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;  // the longest rows go first
  const int first = tile * kRows, mine = first + warp * 32;
  const T* q = static_cast<const T*>(p.q) + batch * p.qs.batch + head * p.qs.head;
  const T* k = static_cast<const T*>(p.k) + batch * p.ks.batch + head * p.ks.head;
  const T* v = static_cast<const T*>(p.v) + batch * p.vs.batch + head * p.vs.head;
  const T* dout = static_cast<const T*>(p.dout) + batch * p.dos.batch + head * p.dos.head;
  const uint32_t base = device::shared_address(shared), k_shared = base + 2 * kTileBytes,
                 v_shared = k_shared + 2 * kStageBytes;
  auto* key_bias = reinterpret_cast<float*>(shared + 2 * kTileBytes + 4 * kStageBytes);

  const int keys = p.causal ? max(0, min(p.lk, min(first + kRows, p.lq) + p.offset)) : p.lk;
  const int blocks = (keys + kStageKeys - 1) / kStageKeys;
  const auto read_bias = [&](int block) {  // keys past the end have no weight
    const int key = block * kStageKeys + static_cast<int>(threadIdx.x);
    if (threadIdx.x >= kStageKeys || key >= p.lk) return -INFINITY;
    return p.key_bias ? bias_to_log2(p.key_bias[batch * p.key_bias_batch + key]) : 0.0f;
  };
  const auto store_bias = [&](int block, float bias) {
    if (threadIdx.x < kStageKeys) key_bias[(block & 1) * kStageKeys + threadIdx.x] = bias;
  };
  const auto load_stage = [&](int block) {
    const uint32_t at = (block & 1) * kStageBytes;
    load_rows<T, kDim, kStageKeys, kThreads>(k_shared + at, k, p.ks.row, block * kStageKeys, p.lk, p.d);
    load_rows<T, kDim, kStageKeys, kThreads>(v_shared + at, v, p.vs.row, block * kStageKeys, p.lk, p.d);
  };
  store_bias(0, read_bias(0));
  float next_bias = read_bias(1);
  load_rows<T, kDim, kRows, kThreads>(base, q, p.qs.row, first, p.lq, p.d);
  load_rows<T, kDim, kRows, kThreads>(base + kTileBytes, dout, p.dos.row, first, p.lq, p.d);
  if (blocks > 0) load_stage(0);
  device::commit_copies();

  const int row_a = lane & 15, half_a = lane >> 4, row_b = (lane & 7) + ((lane >> 4) << 3),
            half_b = (lane >> 3) & 1;
  const uint32_t a_offset = row_a * kDim * 2 + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t b_offset = row_b * kDim * 2 + ((half_b ^ (row_b & 7)) << 4);
  const uint32_t q_address = base + warp * 32 * kDim * 2 + a_offset;
  const float scale = p.scale * kLog2e;
  float lse[4], delta[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = mine + (lane >> 2) + 8 * r;
    const int64_t at = (static_cast<int64_t>(batch) * p.heads + head) * p.rows + i;
    lse[r] = i < p.lq ? p.lse2[at] : INFINITY, delta[r] = i < p.lq ? p.delta[at] : 0.0f;
  }
  float sum[2][kDim / 8][4];
  clear<kDim>(sum);
  for (int block = 0; block < blocks; ++block) {
    device::wait_copies<0>();
    __syncthreads();
    if (block + 1 < blocks) load_stage(block + 1);
    device::commit_copies();
    store_bias(block + 1, next_bias), next_bias = read_bias(block + 2);
    const uint32_t at = (block & 1) * kStageBytes;
#pragma unroll 1
    for (int sub = 0; sub < kStageKeys / kKeys; ++sub) {
      const int key = block * kStageKeys + sub * kKeys;
      if (key >= p.lk || (p.causal && key > mine + 31 + p.offset)) break;
      const uint32_t from = at + sub * kKeys * kDim * 2;
      float s[2][kTiles][4], e[2][kTiles][4];
      row_products<T, kDim, kTiles>(s, q_address, k_shared + from + b_offset);
      row_products<T, kDim, kTiles>(e, q_address + kTileBytes, v_shared + from + b_offset);
      const bool masked = p.causal && key + kKeys - 1 > mine + p.offset;
      const float* of_key = key_bias + (block & 1) * kStageKeys + sub * kKeys + 2 * (lane & 3);
      uint32_t a[kKeys / 16][2][4];
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float2 bias = *reinterpret_cast<const float2*>(of_key + 8 * n);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const float *x = &s[r >> 1][n][(r & 1) * 2], *y = &e[r >> 1][n][(r & 1) * 2];
          float t0 = device::exp2_approx(fmaf(x[0], scale, bias.x - lse[r])) * (y[0] - delta[r]);
          float t1 = device::exp2_approx(fmaf(x[1], scale, bias.y - lse[r])) * (y[1] - delta[r]);
          if (masked) {
            const int seen = mine + (lane >> 2) + 8 * r + p.offset - (key + 8 * n + 2 * (lane & 3));
            if (seen < 0) t0 = 0;
            if (seen < 1) t1 = 0;
          }
          a[n >> 1][r >> 1][(n & 1) * 2 + (r & 1)] = device::pack_pair<T>(t0, t1);
        }
      }
      add_products<T, kDim, kKeys / 16>(sum, a, k_shared + from + a_offset);
    }
  }
  device::wait_copies<0>();
  __syncthreads();  // if there is no key, the query tile may still be arriving
  T* to = static_cast<T*>(p.dq) + batch * p.dqs.batch + head * p.dqs.head + mine * p.dqs.row;
  store_rows<T, kDim>(sum, p.scale, reinterpret_cast<T*>(shared) + warp * 32 * kDim, to, p.dqs.row,
                      p.lq - mine, p.d);
}

}  // namespace tachy::ops::flash
