// The product of two matrices of bytes by mma.sync, for scaled_gemm: y = act(scales · x·wᵀ + bias + addend).
//
// A block owns a tile of y and walks over K in stages, which cp.async brings to shared memory kStages - 1
// ahead (device/tile_sm80.cuh). Blocks are persistent: the copies run on into the block's next tile, so that
// they are under way while the epilogue of this one stores.
#pragma once

#include "device/tile_sm80.cuh"

namespace tachy::ops::byte_gemm {

using namespace device::tile;

struct Params {
  const uint8_t *x, *w;
  const float *x_scale, *w_scale;
  const void *bias, *addend;
  void* y;
  int64_t x_row, addend_row, y_row, m;
  int n, k;
  int tiles_m, tiles_n,
      group;   // `group` rows of tiles share their columns of the weight in the second-level cache
  bool packs;  // whether rows of y and of addend allow stores of 8 values
  device::Act act;
};

// The first row and column of a tile.
struct Corner {
  int row, column;
};
template <class S>
__device__ __forceinline__ Corner corner_of(const Params& p, int tile) {
  const int in_group = p.group * p.tiles_n, group = tile / in_group, at = tile - group * in_group;
  const int first = group * p.group, rows = min(p.group, p.tiles_m - first);
  return {(first + at % rows) * S::kRows, at / rows * S::kColumns};
}

// The copies of one thread: the same chunk of every kPassRows-th row, slab after slab, stage after stage and
// tile after tile.
template <class S>
struct Copies {
  static_assert(S::kColumns % S::kPassRows == 0);
  static constexpr bool kSpread = true;
  const Params& p;
  uint32_t to;
  int tile = static_cast<int>(blockIdx.x);
  const uint8_t *x = nullptr, *w = nullptr;
  int rows_x = 0, rows_w = 0;  // number of rows from this thread's first one on
  int left = 0;                // bytes of K from the next stage's first on
  uint32_t base = 0;           // where the stage that is being copied begins in shared memory

  __device__ __forceinline__ Copies(const Params& params, uint32_t shared)
      : p(params), to(shared + my_place()) {}

  __device__ __forceinline__ void next_tile() {
    left = p.k, rows_x = rows_w = 0;
    if (tile < p.tiles_m * p.tiles_n) {
      const Corner corner = corner_of<S>(p, tile);
      rows_x = static_cast<int>(p.m) - corner.row - my_row(), rows_w = p.n - corner.column - my_row();
      x = p.x + static_cast<int64_t>(corner.row + my_row()) * p.x_row + my_chunk() * 16;
      w = p.w + static_cast<int64_t>(corner.column + my_row()) * p.k + my_chunk() * 16;
      tile += static_cast<int>(gridDim.x);
    }
  }
  __device__ __forceinline__ void begin(int slot) {
    if (left <= 0) next_tile();
    base = to + static_cast<uint32_t>(slot * S::kStageBytes);
  }
  __device__ __forceinline__ void part(int index, int parts) {
    constexpr int kPasses = S::kPassesX + S::kPassesW;
    const int mine = left - my_chunk() * 16;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      if (i * parts / kPasses != index) continue;
      const bool of_x = i < S::kPassesX;
      const int row = (of_x ? i : i - S::kPassesX) * S::kPassRows;
      const uint8_t* from = of_x ? x + row * p.x_row : w + static_cast<int64_t>(row) * p.k;
      const bool there = row < (of_x ? rows_x : rows_w);
#pragma unroll
      for (int slab = 0; slab < S::kSlabs; ++slab)
        device::copy_async(base + slab * S::kSlabBytes + ((of_x ? 0 : S::kRows) + row) * 64, from + slab * 64,
                           there && mine > slab * 64);
    }
  }
  __device__ __forceinline__ void end() {
    device::commit_copies();
    x += S::kDepth, w += S::kDepth, left -= S::kDepth;
  }
};

// Writes eight rows at a time through shared memory, so that a lane stores eight neighbouring values.
template <class S, class T>
__device__ __forceinline__ void store_tile(const Params& p, const Sums<S>& sums, float* out, int64_t row0,
                                           int column0) {
  // Eight lanes take a row of 64 or of 48 columns, for which two of them have none.
  constexpr int kLanes = S::kWarpColumns > 32 ? 8 : 4, kPass = 32 / kLanes, kPasses = 8 / kPass;
  static_assert(S::kWarpColumns <= 64);
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / kLanes, column = lane % kLanes * 8;
  const int first = column0 + column, count = column < S::kWarpColumns ? p.n - first : 0;
  const bool packs = p.packs && count >= 8;
  const T* addend = p.addend ? static_cast<const T*>(p.addend) + row0 * p.addend_row + first : nullptr;
  T* y = static_cast<T*>(p.y) + row0 * p.y_row + first;
  const int rows = static_cast<int>(min(static_cast<int64_t>(S::kWarpRows), p.m - row0));
  // The lane with a row's number holds the factors of that row.
  float x_scale[S::kWarpRows / 32], w_scale[8] = {}, bias[8] = {};
#pragma unroll
  for (int i = 0; i < S::kWarpRows / 32; ++i)
    x_scale[i] = i * 32 + lane < rows ? p.x_scale[row0 + i * 32 + lane] : 0.0f;
  if (count > 0) {
    read_eight(p.w_scale + first, w_scale, count, packs);
    if (p.bias) read_eight(static_cast<const T*>(p.bias) + first, bias, count, packs);
  }
#pragma unroll 1
  for (int i = 0; i < S::kWarpRows / 8; ++i) {
    float more[kPasses][8] = {};
    if (addend)
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const int at = i * 8 + pass * kPass + row;
        if (at < rows && count > 0) read_eight(addend + at * p.addend_row, more[pass], count, packs);
      }
    put_rows<S>(sums, out, i);
    __syncwarp();
    const float eight_scales = S::kWarpRows > 32 && i >= 4 ? x_scale[S::kWarpRows / 32 - 1] : x_scale[0];
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int at = i * 8 + pass * kPass + row;
      const float scale = __shfl_sync(0xffffffffu, eight_scales, at % 32);
      if (at >= rows || count <= 0) continue;
      const float* from = out + (pass * kPass + row) * S::kPitch + column;
      float v[8];
      read_shared(from, v);
#pragma unroll
      for (int c = 0; c < 8; ++c) v[c] = v[c] * (scale * w_scale[c]) + bias[c] + more[pass][c];
      device::with_act(p.act, [&](auto act) {
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] = device::activate<(sizeof(T) == 2)>(v[c], act());
      });
      write_eight(y + at * p.y_row, v, count, packs);
    }
    __syncwarp();
  }
}

template <class S, class T>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    byte_gemm_kernel(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const WarpPlace<S> place(shared);
  Copies<S> copies(p, device::shared_address(shared));
  walk_tiles<S>(copies, place, (p.k + S::kDepth - 1) / S::kDepth, p.tiles_m * p.tiles_n,
                [&](int tile, const Sums<S>& sums) {
                  const Corner corner = corner_of<S>(p, tile);
                  store_tile<S, T>(p, sums, place.out, corner.row + place.row, corner.column + place.column);
                });
}

}  // namespace tachy::ops::byte_gemm
