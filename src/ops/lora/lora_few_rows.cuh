// The adapters for few rows (up to 64) in f16 and bf16, where the time is spent on launches and memory
// latency, not on bytes.
//
//   down   A block takes 32 columns of low of one adapter and a share of K, and all of that adapter's rows,
//          wherever they lie. Its warps take turns at pieces of 32 values of K and multiply straight from
//          global memory. Their sums meet in shared memory and are added in the warps' order; `up` adds the
//          shares in their order.
//   up     A block takes 32 columns of y per warp, over all of the adapter's rows. B is loaded into registers
//          before it waits for low. low is split into two 16-bit values, high + rest, so that nothing is
//          rounded before y is.
//
// A lane of an mma.sync's operand holds 4 values of the inner dimension, which may be any 4 as long as both
// operands agree. So a lane takes neighbouring ones, and reads 16 bytes for two products in `down`, and 8 for
// one in `up`.
#pragma once

#include "device/mma_sm80.cuh"
#include "device/overlap.cuh"
#include "ops/lora/lora_params.cuh"

namespace tachy::ops::lora_gpu {

// Rows of a call, columns of low or y per warp, values of K per step.
constexpr int kFewRows = 64, kFewColumns = 32, kFewDepth = 32;
// Distance of low's rows in shared memory, in values.
constexpr int kLowStride = kChunk + 8;

// The rows of one adapter, in their order.
struct FewRows {
  int row[kFewRows], count;
};

// Lists the rows of an adapter. The whole block calls it: the first warp makes the list, and then there is a
// barrier.
__device__ __forceinline__ void list_rows(const Params& p, int adapter, FewRows& to) {
  if (threadIdx.x < 32) {
    int before = 0;
#pragma unroll
    for (int half = 0; half < kFewRows; half += 32) {
      const int m = half + static_cast<int>(threadIdx.x);
      const bool mine = role_of(p, m, adapter, false) == Role::own;
      const unsigned all = __ballot_sync(0xffffffffu, mine);
      if (mine) to.row[before + __popc(all & ((1u << threadIdx.x) - 1))] = m;
      before += __popc(all);
    }
    if (threadIdx.x == 0) to.count = before;
  }
  __syncthreads();
}

// grid [tiles of 32 columns of low, adapters if there is an index, shares of K]; kTiles tiles of 16 rows.
template <class T, int kTiles>
__global__ void __launch_bounds__(256) lora_few_down_sm80(const Params p) {
  __shared__ FewRows rows;
  __shared__ float parts[8][16 * kFewColumns];
  const int warps = static_cast<int>(blockDim.x) / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4, adapter = static_cast<int>(blockIdx.y);
  const int c0 = static_cast<int>(blockIdx.x) * kFewColumns;
  const int k0 = static_cast<int>(blockIdx.z) * p.depth, k1 = min(k0 + p.depth, p.in);
  device::wait_before_next_kernel();  // `up` reads the index and B, and clears rows of y, before it waits
  list_rows(p, adapter, rows);
  if (rows.count == 0) return;
  const T *x = static_cast<const T*>(p.x), *a = static_cast<const T*>(p.a);
  const T *columns[4], *lines[kTiles][2];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int c = c0 + j * 8 + g;
    columns[j] = c < p.width ? a + p.adapter_of(c, adapter) * p.a_adapter + p.row_of(c) * p.a_row : nullptr;
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = i * 16 + h * 8 + g;
      lines[i][h] = at < rows.count ? x + rows.row[at] * p.x_stride : nullptr;
    }
  const auto read = [](const T* row, int k) {
    return row ? __ldg(reinterpret_cast<const uint4*>(row + k)) : make_uint4(0, 0, 0, 0);
  };
  float sums[kTiles][4][4] = {};
#pragma unroll 4
  for (int base = k0 + warp * kFewDepth; base < k1; base += warps * kFewDepth) {
    const int k = base + t * 8;
    const bool inside = k < k1;  // K and shares are multiples of 8
    uint4 b[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) b[j] = read(inside ? columns[j] : nullptr, k);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i * 16 >= rows.count) break;
      const uint4 u = read(inside ? lines[i][0] : nullptr, k), v = read(inside ? lines[i][1] : nullptr, k);
      const uint32_t first[4] = {u.x, v.x, u.y, v.y}, second[4] = {u.z, v.z, u.w, v.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        device::mma<T>(sums[i][j], first, b[j].x, b[j].y);
        device::mma<T>(sums[i][j], second, b[j].z, b[j].w);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    if (i * 16 >= rows.count) break;
    __syncthreads();  // all threads have added the previous tile
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        parts[warp][(g + e / 2 * 8) * kFewColumns + j * 8 + t * 2 + e % 2] = sums[i][j][e];
    __syncthreads();
    for (int at = threadIdx.x; at < 16 * kFewColumns; at += blockDim.x) {
      const int line = i * 16 + at / kFewColumns, c = c0 + at % kFewColumns;
      if (line >= rows.count || c >= p.width) continue;
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += parts[w][at];
      if (p.scales) sum *= p.scales[p.adapter_of(c, adapter)];
      p.low[(blockIdx.z * p.rows + rows.row[line]) * p.width + c] = sum;
    }
  }
}

// Loads columns [chunk, chunk + 64) of low of the listed rows, up to a whole tile of rows, as two 16-bit
// planes, with zeros after the end.
template <class T>
__device__ __forceinline__ void split_few(const Params& p, const FewRows& rows, int chunk, T* high, T* rest) {
  const int lines = (rows.count + 15) / 16 * 16;
  for (int at = threadIdx.x; at < lines * (kChunk / 4); at += blockDim.x) {
    const int line = at / (kChunk / 4), c = at % (kChunk / 4) * 4;
    float v[4];
    load_low(p, line < rows.count ? rows.row[line] : 0, chunk + c, line < rows.count, v);
    uint2 first, second;
    first.x = device::pack_pair<T>(v[0], v[1]), first.y = device::pack_pair<T>(v[2], v[3]);
    const float2 a = device::unpack_pair<T>(first.x), b = device::unpack_pair<T>(first.y);
    second.x = device::pack_pair<T>(v[0] - a.x, v[1] - a.y),
    second.y = device::pack_pair<T>(v[2] - b.x, v[3] - b.y);
    *reinterpret_cast<uint2*>(high + line * kLowStride + c) = first;
    *reinterpret_cast<uint2*>(rest + line * kLowStride + c) = second;
  }
}

// Stores two neighbouring columns of y from `o` on.
template <class T>
__device__ __forceinline__ void store_two(const Params& p, int m, int o, float a, float b, bool pairs) {
  T* const to = static_cast<T*>(p.y) + m * p.y_stride + o;
  if (pairs && o + 1 < p.out) {
    if (p.accumulate) {
      const float2 before = device::unpack_pair<T>(*reinterpret_cast<const uint32_t*>(to));
      a += before.x, b += before.y;
    }
    *reinterpret_cast<uint32_t*>(to) = device::pack_pair<T>(a, b);
    return;
  }
  if (o < p.out) to[0] = device::from_float<T>(p.accumulate ? device::as_float(to[0]) + a : a);
  if (o + 1 < p.out) to[1] = device::from_float<T>(p.accumulate ? device::as_float(to[1]) + b : b);
}

// grid [pieces of y's columns, adapters if there is an index].
template <class T, int kTiles>
__global__ void __launch_bounds__(256) lora_few_up_sm80(const Params p, const bool pairs) {
  __shared__ FewRows rows;
  __shared__ __align__(16) T high[kTiles * 16 * kLowStride], rest[kTiles * 16 * kLowStride];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int adapter = static_cast<int>(blockIdx.y), block_columns = static_cast<int>(blockDim.x);
  const int first = static_cast<int>(blockIdx.x) * block_columns, o0 = first + warp * kFewColumns;
  // list_rows reads only inputs, which are complete: `down` had waited for all earlier work
  // when this kernel was started.
  list_rows(p, adapter, rows);
  if (!p.accumulate && adapter == 0)
    for (int m = warp; m < p.rows; m += block_columns / 32)
      if (role_of(p, m, 0, true) == Role::clear)
        for (int o = first + lane * 2; o < min(first + block_columns, p.out); o += 64)
          store_two<T>(p, m, o, 0, 0, pairs);
  if (rows.count == 0) return device::wait_for_previous_kernel();
  const T* b = static_cast<const T*>(p.b);
  float sums[kTiles][4][4] = {};
  bool waited = false;
  for (int chunk = 0; chunk < p.width; chunk += kChunk) {
    uint2 columns[kChunk / 16][4];
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int c = chunk + step * 16 + t * 4, o = o0 + j * 8 + g;  // ranks are multiples of 4
        const T* at = b + p.adapter_of(c, adapter) * p.b_adapter + o * p.b_row + p.row_of(c);
        columns[step][j] =
            c < p.width && o < p.out ? __ldg(reinterpret_cast<const uint2*>(at)) : make_uint2(0, 0);
      }
    if (!waited) device::wait_for_previous_kernel();  // because low is needed
    waited = true;
    __syncthreads();  // all threads are done with the previous chunk
    split_few<T>(p, rows, chunk, high, rest);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      if (i * 16 >= rows.count) break;
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        if (chunk + step * 16 >= p.width) break;
        const auto multiply = [&](const T* plane) {
          const T* at = plane + (i * 16 + g) * kLowStride + step * 16 + t * 4;
          const uint2 u = *reinterpret_cast<const uint2*>(at),
                      v = *reinterpret_cast<const uint2*>(at + 8 * kLowStride);
          const uint32_t a[4] = {u.x, v.x, u.y, v.y};
#pragma unroll
          for (int j = 0; j < 4; ++j) device::mma<T>(sums[i][j], a, columns[step][j].x, columns[step][j].y);
        };
        multiply(high);
        multiply(rest);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int line = i * 16 + h * 8 + g;
      if (line >= rows.count) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        store_two<T>(p, rows.row[line], o0 + j * 8 + t * 2, sums[i][j][h * 2], sums[i][j][h * 2 + 1], pairs);
    }
}

}  // namespace tachy::ops::lora_gpu
