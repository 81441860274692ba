// The adapters' gradients of weights: sums over the rows, G[ρ, c] = Σ_m scale · low[m, ρ] · values[m, c],
// which is dA with low = dy · B and values = x, and the transpose of dB with low = x · Aᵀ and values = dy.
// Also the gradients of scales.
//
// A block sums a share of the rows for 64 columns of low and some columns of values. The shares are written
// to `partial` [shares, n·r, C]; a second kernel adds them in their order and rounds. If there is an index,
// rows of other adapters are zeros on both sides, and steps without a row of the adapter are skipped.
#pragma once

#include "ops/lora/lora_plain.cuh"
#include "ops/lora/lora_sm80.cuh"

namespace tachy::ops::lora_gpu {

constexpr int kSumRows = 64, kSumColumns = 128;
constexpr size_t kSumShared = 4 * kTurned;  // 32 KiB: low as high and rest, and two tiles of values

struct Sums {
  Params low;  // the source of low and of its scales
  const void* values;
  int64_t values_stride;
  float* partial;
  int64_t share_rows;  // a multiple of 64
  int columns, column_blocks, shares;

  // The row of G that belongs to a column of low.
  __device__ int64_t row_of(int column, int adapter) const {
    return low.index ? int64_t{adapter} * low.rank + column : column;
  }
  __device__ float* place_of(int column, int adapter) const {
    return partial + (int64_t{blockIdx.y} * low.adapters * low.rank + row_of(column, adapter)) * columns;
  }
};

// grid [column blocks · chunks of low, shares].
template <class T>
__global__ void __launch_bounds__(256) lora_weights_sm80(const Sums p) {
  extern __shared__ __align__(128) char lora_shared[];
  char *high = lora_shared, *rest = high + kTurned, *tiles = rest + kTurned;
  const Chunk chunk(p.low, static_cast<int>(blockIdx.x / p.column_blocks));
  const int first = static_cast<int>(blockIdx.x % p.column_blocks) * kSumColumns;
  const int64_t begin = blockIdx.y * p.share_rows;
  const int64_t end = begin + p.share_rows < p.low.rows ? begin + p.share_rows : p.low.rows;
  const int warp = threadIdx.x / 32, row = warp / 4 * 32, column = warp % 4 * 32, piece = threadIdx.x % 8;
  const T* values = static_cast<const T*>(p.values);
  float sums[2][4][4] = {};
  for (int64_t m0 = begin; m0 < end; m0 += kSumRows) {
    const bool mine =
        threadIdx.x < kSumRows && role_of(p.low, m0 + threadIdx.x, chunk.adapter, false) == Role::own;
    if (!__syncthreads_or(mine))
      continue;  // this also waits until all threads are done with the previous
                 // step
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int line = threadIdx.x / 8 + i % 2 * 32, c = first + i / 2 * 64 + piece * 8;
      // Both are multiples of 8.
      const bool present = c < p.columns && role_of(p.low, m0 + line, chunk.adapter, false) == Role::own;
      copy_async(shared_address(tiles) + i / 2 * kTurned + place(line, piece),
                 present ? values + (m0 + line) * p.values_stride + c : values, present);
    }
    commit_copies();
    split_low<T>(p.low, m0, chunk.adapter, chunk.begin, high, rest);
    wait_copies<0>();
    __syncthreads();
    multiply<T, true, true>(sums, shared_address(high), row, shared_address(tiles), column);
    multiply<T, true, true>(sums, shared_address(rest), row, shared_address(tiles), column);
  }
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = chunk.begin + row + i * 8 + g;
    if (at >= chunk.end) continue;
    float* to = p.place_of(at, chunk.adapter);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int c = first + column + j * 8 + t * 2;  // the number of columns is even
      if (c < p.columns)
        *reinterpret_cast<float2*>(to + c) =
            make_float2(sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) lora_weights_plain(const Sums p) {
  __shared__ Tiles tiles;
  const Chunk chunk(p.low, static_cast<int>(blockIdx.x / p.column_blocks));
  const int first = static_cast<int>(blockIdx.x % p.column_blocks) * kPlainTile;
  const int64_t begin = blockIdx.y * p.share_rows;
  const int64_t rest = p.low.rows - begin, count = rest < p.share_rows ? rest : p.share_rows;
  const T* values = static_cast<const T*>(p.values);
  const auto own = [&](int m) { return role_of(p.low, begin + m, chunk.adapter, false) == Role::own; };
  float sums[4][4] = {};
  add_product(
      tiles, static_cast<int>(count), sums,
      [&](int i, int m) {
        const int c = chunk.begin + i;
        if (c >= chunk.end || !own(m)) return 0.0f;
        float sum = 0;
        for (int s = 0; s < p.low.splits; ++s)
          sum += p.low.low[(s * p.low.rows + begin + m) * p.low.width + c];
        return p.low.low_scales ? sum * p.low.low_scales[p.low.adapter_of(c, chunk.adapter)] : sum;
      },
      [&](int j, int m) {
        if (first + j >= p.columns || !own(m)) return 0.0f;
        return as_float(values[(begin + m) * p.values_stride + first + j]);
      });
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = chunk.begin + static_cast<int>(threadIdx.x) / 16 * 4 + i;
    if (at >= chunk.end) continue;
    float* to = p.place_of(at, chunk.adapter);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int c = first + static_cast<int>(threadIdx.x) % 16 * 4 + j;
      if (c < p.columns) to[c] = sums[i][j];
    }
  }
}

// Adds the shares into g[adapter][j · row + c · inner], of type T.
template <class T>
__global__ void __launch_bounds__(256)
    lora_weights_finish(const Sums p, T* g, int64_t adapter, int64_t row, int64_t inner) {
  const int c = static_cast<int>(blockIdx.x) * 256 + static_cast<int>(threadIdx.x);
  const int64_t rows = int64_t{p.low.adapters} * p.low.rank;
  if (c >= p.columns) return;
  for (int64_t at = blockIdx.y; at < rows; at += gridDim.y) {
    float sum = 0;
    for (int s = 0; s < p.shares; ++s) sum += p.partial[(s * rows + at) * p.columns + c];
    g[at / p.low.rank * adapter + at % p.low.rank * row + c * inner] = device::from_float<T>(sum);
  }
}

// grid [parts, adapters]: each block computes a part of Σ u · v over one adapter's rows and columns. Here
// v.low is not scaled.
static __global__ void __launch_bounds__(256)
    lora_scales_kernel(const Params u, const Params v, float* parts) {
  __shared__ float scratch[33];
  const int adapter = static_cast<int>(blockIdx.y), offset = u.index ? 0 : adapter * u.rank;
  const int64_t count = u.rows * u.rank, step = int64_t{gridDim.x} * 256;
  float sum = 0;
  for (int64_t at = int64_t{blockIdx.x} * 256 + threadIdx.x; at < count; at += step) {
    const int64_t m = at / u.rank, column = offset + at % u.rank;
    if (role_of(u, m, adapter, false) != Role::own) continue;
    float a = 0, b = 0;
    for (int s = 0; s < u.splits; ++s) a += u.low[(s * u.rows + m) * u.width + column];
    for (int s = 0; s < v.splits; ++s) b += v.low[(s * v.rows + m) * v.width + column];
    sum = fmaf(a, b, sum);
  }
  sum = device::block_sum(sum, scratch);
  if (threadIdx.x == 0) parts[int64_t{adapter} * gridDim.x + blockIdx.x] = sum;
}

static __global__ void lora_scales_finish(const float* parts, int count, int adapters, float* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= adapters) return;
  float sum = 0;
  for (int k = 0; k < count; ++k) sum += parts[int64_t{i} * count + k];
  out[i] = sum;
}

}  // namespace tachy::ops::lora_gpu
