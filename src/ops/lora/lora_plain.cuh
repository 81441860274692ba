// The adapters' kernels with FMA, for every dtype, shape, stride and alignment; float32 uses them. Shared
// memory holds tiles of 64 x 64 over pieces of 16 of the inner dimension, and a thread computes 4 x 4 sums.
#pragma once

#include "ops/lora/lora_params.cuh"

namespace tachy::ops::lora_gpu {

using device::as_float;
using device::from_float;

constexpr int kPlainTile = 64, kPlainDepth = 16;

struct Tiles {
  float rows[kPlainDepth][kPlainTile + 4], columns[kPlainDepth][kPlainTile + 4];
};

// sums += rows · columnsᵀ; row(i, k) and column(j, k) are values for local i, j < 64 and k < depth.
template <class Row, class Column>
__device__ __forceinline__ void add_product(Tiles& t, int depth, float (&sums)[4][4], Row&& row,
                                            Column&& column) {
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  for (int base = 0; base < depth; base += kPlainDepth) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPlainTile * kPlainDepth / 256; ++i) {
      const int at = i * 256 + static_cast<int>(threadIdx.x), k = at % kPlainDepth, line = at / kPlainDepth;
      const bool inside = base + k < depth;
      t.rows[k][line] = inside ? row(line, base + k) : 0.0f;
      t.columns[k][line] = inside ? column(line, base + k) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPlainDepth; ++k) {
      float u[4], v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) u[i] = t.rows[k][ty * 4 + i], v[i] = t.columns[k][tx * 4 + i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(u[i], v[j], sums[i][j]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) lora_down_plain(const Params p) {
  __shared__ Tiles tiles;
  const int64_t m0 = blockIdx.x / p.chunks * int64_t{kPlainTile};
  const Chunk chunk(p, static_cast<int>(blockIdx.x % p.chunks));
  const bool mine =
      threadIdx.x < kPlainTile && role_of(p, m0 + threadIdx.x, chunk.adapter, false) == Role::own;
  if (!__syncthreads_or(mine)) return;
  const int k0 = static_cast<int>(blockIdx.y) * p.depth, depth = min(p.depth, p.in - k0);
  const T *x = static_cast<const T*>(p.x), *a = static_cast<const T*>(p.a);
  float sums[4][4] = {};
  add_product(
      tiles, depth, sums,
      [&](int i, int k) { return m0 + i < p.rows ? as_float(x[(m0 + i) * p.x_stride + k0 + k]) : 0.0f; },
      [&](int j, int k) {
        const int c = chunk.begin + j;
        if (c >= chunk.end) return 0.0f;
        return as_float(
            a[p.adapter_of(c, chunk.adapter) * p.a_adapter + p.row_of(c) * p.a_row + (k0 + k) * p.a_inner]);
      });
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + threadIdx.x / 16 * 4 + i;
    if (role_of(p, m, chunk.adapter, false) != Role::own) continue;
    float* low = p.low + (blockIdx.y * p.rows + m) * p.width;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int c = chunk.begin + static_cast<int>(threadIdx.x % 16) * 4 + j;
      if (c < chunk.end) low[c] = sums[i][j] * (p.scales ? p.scales[p.adapter_of(c, chunk.adapter)] : 1.0f);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) lora_up_plain(const Params p) {
  __shared__ Tiles tiles;
  const int64_t m0 = blockIdx.x / p.column_blocks * int64_t{kPlainTile};
  const int adapter = static_cast<int>(blockIdx.y);
  const int first = static_cast<int>(blockIdx.x % p.column_blocks) * p.columns;
  const bool mine =
      threadIdx.x < kPlainTile && role_of(p, m0 + threadIdx.x, adapter, !p.accumulate) != Role::none;
  if (!__syncthreads_or(mine)) return;
  const T* b = static_cast<const T*>(p.b);
  T* y = static_cast<T*>(p.y);
  for (int begin = first; begin < min(first + p.columns, p.out); begin += kPlainTile) {
    float sums[4][4] = {};
    add_product(
        tiles, p.width, sums,
        [&](int i, int c) {
          if (role_of(p, m0 + i, adapter, false) != Role::own) return 0.0f;
          float sum = 0;
          for (int s = 0; s < p.splits; ++s) sum += p.low[(s * p.rows + m0 + i) * p.width + c];
          return p.low_scales ? sum * p.low_scales[p.adapter_of(c, adapter)] : sum;
        },
        [&](int j, int c) {
          if (begin + j >= p.out) return 0.0f;
          return as_float(
              b[p.adapter_of(c, adapter) * p.b_adapter + (begin + j) * p.b_row + p.row_of(c) * p.b_inner]);
        });
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t m = m0 + threadIdx.x / 16 * 4 + i;
      const Role role = role_of(p, m, adapter, !p.accumulate);
      if (role == Role::none) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int o = begin + static_cast<int>(threadIdx.x % 16) * 4 + j;
        if (o >= p.out) continue;
        T* to = y + m * p.y_stride + o;
        const float sum = role == Role::clear ? 0.0f : sums[i][j];
        *to = from_float<T>(p.accumulate ? as_float(*to) + sum : sum);
      }
    }
  }
}

}  // namespace tachy::ops::lora_gpu
