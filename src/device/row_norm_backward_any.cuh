// Backward of the norms over rows (row_norm_backward.cuh) for any width and alignment, with one block per
// row; P and Q by sums down the columns, if the pass over the rows does not make them; and the sum of all
// partial sums.
#pragma once

#include "device/row_norm_backward.cuh"

namespace tachy::device {

// u of one value, read from memory.
template <class T>
__device__ __forceinline__ float upstream(const RowNormBackwardParams& p, int64_t i, int j, float n) {
  const T* dy = static_cast<const T*>(p.dy) + p.at(i, p.dy_batch, p.dy_stride);
  const float v = as_float(dy[j]);
  if (p.cos) {
    const int64_t l = p.position(i);
    const int pair = j % p.head / 2;
    const float cos = p.cos[l * p.cos_stride + pair], sin = p.sin[l * p.sin_stride + pair];
    return j % 2 ? v * cos - as_float(dy[j - 1]) * sin : v * cos + as_float(dy[j + 1]) * sin;
  }
  return p.silu ? v * silu_slope(n * p.weight[j]) : v;
}

template <class T, bool Centred>
__global__ void __launch_bounds__(256) row_norm_backward_any_kernel(const RowNormBackwardParams p) {
  __shared__ float scratch[33];
  const float count = static_cast<float>(p.c);
  for (int64_t i = blockIdx.x; i < p.rows; i += gridDim.x) {
    const T* x = static_cast<const T*>(p.x) + p.at(i, p.x_batch, p.x_stride);
    float sum = 0, squares = 0;
    if (Centred)
      for (int j = threadIdx.x; j < p.c; j += blockDim.x) sum += as_float(x[j]);
    const float mean = Centred ? block_sum(sum, scratch) / count : 0.0f;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float v = as_float(x[j]) - mean;
      squares = fmaf(v, v, squares);
    }
    bool constant;
    const float r = backward_factor(p, block_sum(squares, scratch), constant);
    const float* scale = p.scale ? p.scale + (p.row ? p.row[i] : 0) * p.scale_stride : nullptr;
    const auto gradient = [&](int j, float n) {
      return upstream<T>(p, i, j, n) * (scale ? 1.0f + scale[j] : 1.0f) * (p.weight ? p.weight[j] : 1.0f);
    };
    float sum_g = 0, product = 0;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float n = (as_float(x[j]) - mean) * r, g = gradient(j, n);
      sum_g += g, product = fmaf(g, n, product);
    }
    const float mean_g = Centred ? block_sum(sum_g, scratch) / count : 0.0f;
    product = block_sum(product, scratch);
    const float mean_product = constant ? 0.0f : product / count;
    T* dx = static_cast<T*>(p.dx) + p.at(i, p.dx_batch, p.dx_stride);
    const T* extra = p.dsum ? static_cast<const T*>(p.dsum) + i * p.dsum_stride : nullptr;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float n = (as_float(x[j]) - mean) * r;
      dx[j] = from_float<T>(r * (gradient(j, n) - mean_g - n * mean_product) +
                            (extra ? as_float(extra[j]) : 0.0f));
    }
    if (p.stats && threadIdx.x == 0) p.stats[i] = make_float2(mean, r);
  }
}

// grid [C / 128, splits, tables]: each thread sums one channel over those rows of a split that
// use one row of the table.
template <class T>
__global__ void __launch_bounds__(128) column_sums_kernel(const RowNormBackwardParams p) {
  const int j = blockIdx.x * 128 + threadIdx.x;
  const int64_t each = (p.rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  const int64_t end = begin + each < p.rows ? begin + each : p.rows;
  if (j >= p.c) return;
  for (int table = blockIdx.z; table < p.tables; table += gridDim.z) {
    float sum_p = 0, sum_q = 0;
#pragma unroll 4
    for (int64_t i = begin; i < end; ++i) {
      if (p.row && p.row[i] != table) continue;
      const float2 stats = p.stats[i];
      const float x = as_float(static_cast<const T*>(p.x)[p.at(i, p.x_batch, p.x_stride) + j]);
      const float n = (x - stats.x) * stats.y, u = upstream<T>(p, i, j, n);
      sum_p = fmaf(u, n, sum_p), sum_q += u;
    }
    float* to = p.partial + (static_cast<int64_t>(table) * gridDim.y + blockIdx.y) * 2 * p.c;
    to[j] = sum_p, to[p.c + j] = sum_q;
  }
}

// 32 x 32 threads for 32 channels: the slots of a table's row are dealt to 32 threads each.
static __global__ void __launch_bounds__(1024)
    finish_sums_kernel(const RowNormBackwardParams p, const int slots) {
  __shared__ float2 sums[32][33];
  const int j = blockIdx.x * 32 + threadIdx.x;
  float weight_sum = 0, bias_sum = 0;
  for (int table = 0; table < p.tables; ++table) {
    float2 sum = make_float2(0, 0);
    if (j < p.c)
#pragma unroll 4
      for (int slot = threadIdx.y; slot < slots; slot += 32) {
        const float* from = p.partial + (static_cast<int64_t>(table) * slots + slot) * 2 * p.c;
        sum.x += from[j];
        if (p.with_q) sum.y += from[p.c + j];
      }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int step = 16; step; step >>= 1) {
      if (threadIdx.y < step) {
        const float2 other = sums[threadIdx.y + step][threadIdx.x];
        sums[threadIdx.y][threadIdx.x].x += other.x, sums[threadIdx.y][threadIdx.x].y += other.y;
      }
      __syncthreads();
    }
    if (threadIdx.y == 0 && j < p.c) {
      const float2 total = sums[0][threadIdx.x];
      const float scale = p.scale ? 1.0f + p.scale[table * p.scale_stride + j] : 1.0f;
      weight_sum = fmaf(scale, total.x, weight_sum), bias_sum = fmaf(scale, total.y, bias_sum);
      if (p.dscale)
        p.dscale[table * p.dscale_stride + j] =
            (p.weight ? p.weight[j] : 1.0f) * total.x + (p.bias ? p.bias[j] : 0.0f) * total.y;
      if (p.dshift) p.dshift[table * p.dshift_stride + j] = total.y;
    }
    __syncthreads();
  }
  if (threadIdx.y > 0 || j >= p.c) return;
  if (p.dweight) p.dweight[j] = weight_sum;
  if (p.dbias) p.dbias[j] = bias_sum;
}

}  // namespace tachy::device
