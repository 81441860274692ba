// The adapters' kernels with mma.sync, for f16 and bf16.
//
//   down   128 rows x 64 columns of low per block, 8 warps of 32 x 32; x and A pass through three stages of
//          64 values of K, filled by cp.async
//   up     64 rows x 128 columns of y at a time, 8 warps of 32 x 32. low is float32: it is split into two
//          16-bit values, high + rest, and multiplied twice, so that nothing is rounded before y is. If low
//          has at most 64 columns, a block makes its pieces once for all columns of y that it computes.
//
// Rows of 64 values are 128 bytes of shared memory, whose 16-byte pieces lie at piece ^ row % 8, so ldmatrix
// has no bank conflicts. Four lanes that share a row of y exchange their words before they store, so that
// each writes 16 bytes (and reads as many if it adds to y).
#pragma once

#include "device/mma_sm80.cuh"
#include "ops/lora/lora_params.cuh"

namespace tachy::ops::lora_gpu {

using namespace device;

constexpr int kDownRows = 128, kUpRows = 64, kUpColumns = 128, kStages = 3, kDepth = 64;
// Bytes of a turned (transposed) tile of 64 values of the inner dimension by 64 columns.
constexpr int kTurned = 64 * 128;
constexpr int kDownStage = (kDownRows + kChunk) * 128;          // bytes
constexpr size_t kDownShared = kStages * kDownStage;            // 72 KiB
constexpr size_t kUpShared = (2 * kUpRows + kUpColumns) * 128;  // 32 KiB

// Byte offset of 16-byte piece `piece` of a row of 64 values.
__device__ __forceinline__ uint32_t place(int row, int piece) {
  return static_cast<uint32_t>(row * 128 + ((piece ^ row) & 7) * 16);
}

// Loads an A fragment: 16 rows from `row`, 16 values of the inner dimension from piece `piece` on.
__device__ __forceinline__ void load_rows(uint32_t (&r)[4], uint32_t base, int row, int piece) {
  const int lane = threadIdx.x % 32;
  load_tiles(r, base + place(row + lane % 16, piece + lane / 16));
}
// The same for a turned tile, whose rows are the inner dimension.
__device__ __forceinline__ void load_turned_rows(uint32_t (&r)[4], uint32_t base, int row, int piece) {
  const int lane = threadIdx.x % 32;
  load_tiles_transposed(r, base + place(piece * 8 + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2));
}
// Loads 16 columns (rows of their own tile) from `column`: B fragments b0, b1 of the
// first 8, then of the others.
__device__ __forceinline__ void load_columns(uint32_t (&r)[4], uint32_t base, int column, int piece) {
  const int lane = threadIdx.x % 32;
  load_tiles(r, base + place(column + lane % 8 + lane / 16 * 8, piece + lane / 8 % 2));
}

// The same for turned tiles of 64 columns each, one after another.
__device__ __forceinline__ void load_turned_columns(uint32_t (&r)[4], uint32_t base, int column, int piece) {
  const int lane = threadIdx.x % 32;
  load_tiles_transposed(
      r, base + column / 64 * kTurned + place(piece * 8 + lane % 16, column % 64 / 8 + lane / 16));
}

// c += a tile of 32 x 32 with depth 64. row and column are the warp's first ones.
template <class T, bool kTurnedRows, bool kTurnedColumns>
__device__ __forceinline__ void multiply(float (&c)[2][4][4], uint32_t rows_at, int row, uint32_t columns_at,
                                         int column) {
#pragma unroll
  for (int piece = 0; piece < 8; piece += 2) {
    uint32_t a[2][4], b[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if constexpr (kTurnedRows)
        load_turned_rows(a[i], rows_at, row + i * 16, piece);
      else
        load_rows(a[i], rows_at, row + i * 16, piece);
#pragma unroll
    for (int j = 0; j < 2; ++j)
      if constexpr (kTurnedColumns)
        load_turned_columns(b[j], columns_at, column + j * 16, piece);
      else
        load_columns(b[j], columns_at, column + j * 16, piece);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) mma<T>(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
}

// `turned` means that A's rows lie along the inner dimension, whose elements are a_inner apart.
template <class T, bool kTurnedA>
__global__ void __launch_bounds__(256) lora_down_sm80(const Params p) {
  extern __shared__ __align__(128) char lora_shared[];
  const int64_t m0 = blockIdx.x / p.chunks * int64_t{kDownRows};
  const Chunk chunk(p, static_cast<int>(blockIdx.x % p.chunks));
  const bool mine =
      threadIdx.x < kDownRows && role_of(p, m0 + threadIdx.x, chunk.adapter, false) == Role::own;
  if (!__syncthreads_or(mine)) return;
  const uint32_t base = shared_address(lora_shared);
  const int piece = threadIdx.x % 8, line = threadIdx.x / 8;
  const int k0 = static_cast<int>(blockIdx.y) * p.depth, k1 = min(k0 + p.depth, p.in);
  const T *x = static_cast<const T*>(p.x), *a = static_cast<const T*>(p.a);
  const T* from[6];  // sources of this thread's copies: rows of x, then of A; null past the end
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + line + i * 32;
    from[i] = m < p.rows ? x + m * p.x_stride : nullptr;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int c = chunk.begin + (kTurnedA ? piece * 8 : line + i * 32);
    const T* row = a + p.adapter_of(c, chunk.adapter) * p.a_adapter + p.row_of(c) * p.a_row;
    from[4 + i] = c < chunk.end ? row : nullptr;
  }
  const int steps = (k1 - k0 + kDepth - 1) / kDepth;
  const auto fetch = [&](int step) {
    if (step < steps) {
      const uint32_t to = base + step % kStages * kDownStage;
      const int k = k0 + step * kDepth + piece * 8;
#pragma unroll
      for (int i = 0; i < 6; ++i) {
        if (kTurnedA && i >= 4) {
          const int own = k0 + step * kDepth + line + (i - 4) * 32;
          const bool present = from[i] && own < k1;
          copy_async(to + place(line + i * 32, piece), present ? from[i] + own * p.a_inner : x, present);
        } else {
          const bool present = from[i] && k < k1;  // K is a multiple of 8
          copy_async(to + place(line + i * 32, piece), present ? from[i] + k : x, present);
        }
      }
    }
    commit_copies();
  };
  const int warp = threadIdx.x / 32, row = warp / 2 * 32, column = warp % 2 * 32;
  float sums[2][4][4] = {};
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    __syncthreads();
    fetch(step + kStages - 1);  // into the stage that all threads had finished reading before the barrier
    const uint32_t at = base + step % kStages * kDownStage;
    multiply<T, false, kTurnedA>(sums, at, row, at + kDownRows * 128, column);
  }
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + row + i * 8 + g;
    if (role_of(p, m, chunk.adapter, false) != Role::own) continue;
    float* low = p.low + (blockIdx.y * p.rows + m) * p.width;
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = chunk.begin + column + j * 8 + t * 2 + e;
        if (c >= chunk.end) continue;
        const float scale = p.scales ? p.scales[p.adapter_of(c, chunk.adapter)] : 1.0f;
        low[c] = sums[i / 2][j][i % 2 * 2 + e] * scale;
      }
  }
}

// Transposes four lanes' words as a 4 x 4 matrix: lane t's word k becomes lane k's old word t.
__device__ __forceinline__ void transpose_words(uint32_t (&w)[4]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = step == 1 ? i * 2 : i, high = low + step;
      const bool upper = t & step;
      const uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? w[low] : w[high], step);
      if (upper)
        w[low] = got;
      else
        w[high] = got;
    }
}

// Loads 64 columns of low from `column` on, for 64 rows, as two 16-bit planes.
template <class T>
__device__ __forceinline__ void split_low(const Params& p, int64_t m0, int adapter, int column, char* high,
                                          char* rest) {
  const int at = threadIdx.x % 16 * 4;
#pragma unroll
  for (int i = 0; i < kUpRows / 16; ++i) {
    const int line = threadIdx.x / 16 + i * 16;
    float v[4];
    load_scaled_low(p, m0 + line, column + at, role_of(p, m0 + line, adapter, false) == Role::own, adapter,
                    v);
    uint2 first, second;
    first.x = pack_pair<T>(v[0], v[1]), first.y = pack_pair<T>(v[2], v[3]);
    const float2 a = unpack_pair<T>(first.x), b = unpack_pair<T>(first.y);
    second.x = pack_pair<T>(v[0] - a.x, v[1] - a.y), second.y = pack_pair<T>(v[2] - b.x, v[3] - b.y);
    const uint32_t to = place(line, at / 8) + at % 8 * 2;
    *reinterpret_cast<uint2*>(high + to) = first;
    *reinterpret_cast<uint2*>(rest + to) = second;
  }
}

// Loads 128 rows of B (columns of y) from `first` on, and 64 values of low's columns from `column` on.
template <class T>
__device__ __forceinline__ void load_b(const Params& p, int adapter, int first, int column, bool whole,
                                       char* to) {
  const T* b = static_cast<const T*>(p.b);
  const int piece = threadIdx.x % 8, c = column + piece * 8;
  const uint32_t base = shared_address(to);
#pragma unroll
  for (int i = 0; i < kUpColumns / 32; ++i) {
    const int line = threadIdx.x / 8 + i * 32, o = first + line;
    const T* row = b + o * p.b_row;
    if (whole) {
      const bool present = o < p.out && c < p.width;
      const T* at = row + p.adapter_of(c, adapter) * p.b_adapter + p.row_of(c);
      copy_async(base + place(line, piece), present ? at : b, present);
      continue;
    }
    union {
      T value[8];
      uint4 all;
    } v;
    v.all = uint4{};
    for (int e = 0; e < 8; ++e)
      if (o < p.out && c + e < p.width)
        v.value[e] = row[p.adapter_of(c + e, adapter) * p.b_adapter + p.row_of(c + e)];
    *reinterpret_cast<uint4*>(to + place(line, piece)) = v.all;
  }
  commit_copies();
}

// The same for a turned B, as two turned tiles, each of 64 values of low's columns and 64 columns of y.
template <class T>
__device__ __forceinline__ void load_turned_b(const Params& p, int adapter, int first, int column, char* to) {
  const T* b = static_cast<const T*>(p.b);
  const int piece = threadIdx.x % 8;
  const uint32_t base = shared_address(to);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int line = threadIdx.x / 8 + i % 2 * 32, c = column + line, o = first + i / 2 * 64 + piece * 8;
    const bool present = c < p.width && o < p.out;  // both counts are multiples of 8
    const T* at = b + p.adapter_of(c, adapter) * p.b_adapter + p.row_of(c) * p.b_inner + o;
    copy_async(base + i / 2 * kTurned + place(line, piece), present ? at : b, present);
  }
  commit_copies();
}

// Stores one row of a warp's tile, its 32 columns of y from `o` on. The row's four lanes hold them as
// fragments sums[j][half · 2], sums[j][half · 2 + 1] (columns 8j + 2t, 8j + 2t + 1).
template <class T>
__device__ __forceinline__ void store_row(const Params& p, int64_t m, int o, Role role,
                                          const float (&sums)[4][4], int half, bool whole) {
  const int t = threadIdx.x % 4, mine = o + t * 8;
  T* to = static_cast<T*>(p.y) + m * p.y_stride + mine;
  const bool wide = whole && mine + 8 <= p.out;
  uint32_t words[4] = {};
  if (p.accumulate && role != Role::none) {
    if (wide) {
      const uint4 before = *reinterpret_cast<const uint4*>(to);
      words[0] = before.x, words[1] = before.y, words[2] = before.z, words[3] = before.w;
    } else {
      uint16_t bits[8] = {};
      for (int e = 0; e < 8; ++e)
        if (mine + e < p.out) bits[e] = reinterpret_cast<const uint16_t*>(to)[e];
#pragma unroll
      for (int k = 0; k < 4; ++k) words[k] = bits[2 * k] | static_cast<uint32_t>(bits[2 * k + 1]) << 16;
    }
  }
  transpose_words(words);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float2 v = make_float2(sums[j][half * 2], sums[j][half * 2 + 1]);
    if (role == Role::clear) v = make_float2(0, 0);
    if (p.accumulate) {
      const float2 before = unpack_pair<T>(words[j]);
      v.x += before.x, v.y += before.y;
    }
    words[j] = pack_pair<T>(v.x, v.y);
  }
  transpose_words(words);
  if (role == Role::none) return;
  if (wide) {
    const uint4 all = make_uint4(words[0], words[1], words[2], words[3]);
    if (p.streaming)
      __stcs(reinterpret_cast<uint4*>(to), all);
    else
      *reinterpret_cast<uint4*>(to) = all;
    return;
  }
  for (int e = 0; e < 8; ++e)
    if (mine + e < p.out)
      reinterpret_cast<uint16_t*>(to)[e] = static_cast<uint16_t>(words[e / 2] >> e % 2 * 16);
}

template <class T, bool kTurnedB>
__global__ void __launch_bounds__(256) lora_up_sm80(const Params p, const bool whole_b, const bool whole_y) {
  extern __shared__ __align__(128) char lora_shared[];
  char *high = lora_shared, *rest = high + kUpRows * 128, *columns = rest + kUpRows * 128;
  const int64_t m0 = blockIdx.x / p.column_blocks * int64_t{kUpRows};
  const int adapter = static_cast<int>(blockIdx.y);
  const int first = static_cast<int>(blockIdx.x % p.column_blocks) * p.columns;
  const bool mine =
      threadIdx.x < kUpRows && role_of(p, m0 + threadIdx.x, adapter, !p.accumulate) != Role::none;
  if (!__syncthreads_or(mine)) return;
  const int warp = threadIdx.x / 32, row = warp / 4 * 32, column = warp % 4 * 32, g = threadIdx.x % 32 / 4;
  const bool once = p.width <= kChunk;
  for (int begin = first; begin < min(first + p.columns, p.out); begin += kUpColumns) {
    float sums[2][4][4] = {};
    for (int c = 0; c < p.width; c += kChunk) {
      __syncthreads();
      if constexpr (kTurnedB)
        load_turned_b<T>(p, adapter, begin, c, columns);
      else
        load_b<T>(p, adapter, begin, c, whole_b, columns);
      if (!once || begin == first) split_low<T>(p, m0, adapter, c, high, rest);
      wait_copies<0>();
      __syncthreads();
      multiply<T, false, kTurnedB>(sums, shared_address(high), row, shared_address(columns), column);
      multiply<T, false, kTurnedB>(sums, shared_address(rest), row, shared_address(columns), column);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t m = m0 + row + i * 8 + g;
      store_row<T>(p, m, begin + column, role_of(p, m, adapter, !p.accumulate), sums[i / 2], i % 2, whole_y);
    }
  }
}

}  // namespace tachy::ops::lora_gpu
