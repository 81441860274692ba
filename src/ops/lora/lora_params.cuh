// The common part of lora's kernels. There are two launches: `down` computes low = scale · (x · Aᵀ)
// in float32, over shares of K if there are few rows; `up` adds the shares in their order and
// computes y (+)= low · Bᵀ.
//
//   no index   low is [M, n·r]; its columns are those of all adapters, one adapter after another
//   index      low is [M, r], for each row's own adapter. A block computes for one adapter and exits at once
//              if no row of the block uses it; it stores only the rows that do. So a value of one adapter
//              never meets another's rows, and an index outside [0, n) names no adapter and reads nothing.
//
// `down`'s columns are divided into chunks of 64, which never hold columns of two
// adapters if there is an index.
//
// The backward pass runs the same kernels: dx is the result of adapters with A = Bᵀ and B = Aᵀ for dy. These
// are the same tensors with other strides ("turned").
#pragma once

#include "cuda/row_norm.h"
#include "ops/lora/lora_impl.h"

namespace tachy::ops::lora_gpu {

constexpr int kChunk = 64;

struct Params {
  const void *x, *a, *b;
  void* y;
  float* low;               // [splits, M, width]
  const float* scales;      // optional; `down` multiplies by them
  const float* low_scales;  // optional; applied when low is read
  const int32_t* index;     // optional
  int64_t rows, x_stride, y_stride;
  // Strides of A [n, r, in] and B [n, out, r]; the inner ones are usually 1.
  int64_t a_adapter, a_row, a_inner, b_adapter, b_row, b_inner;
  int adapters, rank, width, in, out;
  int chunks;         // total number of chunks of `down`
  int splits, depth;  // number of shares of K, and the length of one
  int columns;        // columns of y that a block of `up` computes
  int column_blocks;  // blocks of `up` along y
  bool accumulate, streaming;

  // The adapter to which a column of low belongs, and which of its rows of A it is.
  __device__ int adapter_of(int column, int block_adapter) const {
    return index ? block_adapter : column / rank;
  }
  __device__ int row_of(int column) const { return index ? column : column % rank; }
};

// A chunk of `down`: columns [begin, end) of low, and the adapter to which they belong if there is an index.
struct Chunk {
  int adapter, begin, end;
  __device__ Chunk(const Params& p, int chunk) {
    const int per = (p.width + kChunk - 1) / kChunk;
    adapter = p.index ? chunk / per : 0;
    begin = (p.index ? chunk % per : chunk) * kChunk;
    end = begin + kChunk < p.width ? begin + kChunk : p.width;
  }
};

// The role of a row for a block of one adapter (or of all): none, one of the block's own rows, or a row that
// it clears because it names no adapter.
enum class Role : int { none, own, clear };
__device__ inline Role role_of(const Params& p, int64_t m, int adapter, bool clears) {
  if (m >= p.rows) return Role::none;
  if (!p.index) return Role::own;
  const int named = p.index[m];
  if (named == adapter) return Role::own;
  return clears && adapter == 0 && (named < 0 || named >= p.adapters) ? Role::clear : Role::none;
}

// Loads values [column, column + 4) of a row of low, with the shares added in order; zeros past its end.
__device__ inline void load_low(const Params& p, int64_t m, int column, bool present, float (&v)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = 0;
  if (!present || column >= p.width) return;
  for (int s = 0; s < p.splits; ++s) {
    const float* from = p.low + (s * p.rows + m) * p.width + column;
    if (p.width % 4 == 0) {
      const float4 four = *reinterpret_cast<const float4*>(from);
      v[0] += four.x, v[1] += four.y, v[2] += four.z, v[3] += four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (column + i < p.width) v[i] += from[i];
    }
  }
}
// Loads them scaled; low belongs to `block_adapter` if there is an index.
__device__ inline void load_scaled_low(const Params& p, int64_t m, int column, bool present,
                                       int block_adapter, float (&v)[4]) {
  load_low(p, m, column, present, v);
  if (!p.low_scales) return;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i < p.width) v[i] *= p.low_scales[p.adapter_of(column + i, block_adapter)];
}

// The launches' shapes depend only on the call's shape and the GPU. `down_tile` and `up_tile` are the rows of
// a block of each kernel.
inline Params make_params(const LoraArgs& a, const Stream& stream, int down_tile, int up_tile,
                          int up_columns) {
  Params p{};
  p.x = a.x.data, p.a = a.a.data, p.b = a.b.data, p.y = a.y.data;
  p.scales = cuda::data_of<float>(a.scales), p.index = cuda::data_of<int32_t>(a.index);
  p.rows = a.x.dims[0], p.x_stride = a.x.strides[0], p.y_stride = a.y.strides[0];
  p.a_adapter = a.a.strides[0], p.a_row = a.a.strides[1], p.a_inner = a.a.strides[2];
  p.b_adapter = a.b.strides[0], p.b_row = a.b.strides[1], p.b_inner = a.b.strides[2];
  p.adapters = static_cast<int>(a.a.dims[0]), p.rank = static_cast<int>(a.a.dims[1]);
  p.in = static_cast<int>(a.x.dims[1]), p.out = static_cast<int>(a.b.dims[1]);
  p.width = p.index ? p.rank : p.adapters * p.rank;
  p.accumulate = a.accumulate;
  p.streaming = cuda::streams(stream, p.rows * p.out * dtype_size(a.y.dtype));
  const int64_t wanted = int64_t{stream.gpu->info().multiprocessors} * 2;
  p.chunks = (p.width + kChunk - 1) / kChunk * (p.index ? p.adapters : 1);
  const int64_t blocks = (p.rows + down_tile - 1) / down_tile * p.chunks;
  const int64_t splits =
      std::clamp<int64_t>(wanted / std::max<int64_t>(1, blocks), 1, std::clamp(p.in / 256, 1, 32));
  p.depth = static_cast<int>((p.in + splits * 64 - 1) / (splits * 64) * 64);
  p.splits = (p.in + p.depth - 1) / p.depth;
  // A block of `up` keeps its rows' low if that is a single chunk, and then computes
  // several pieces of y's columns.
  const int64_t pieces = (p.out + up_columns - 1) / up_columns;
  const int64_t tiles = (p.rows + up_tile - 1) / up_tile * (p.index ? p.adapters : 1);
  const int64_t each =
      p.width > kChunk ? 1
                       : std::clamp<int64_t>(tiles * pieces / (wanted * 4), 1, std::min<int64_t>(8, pieces));
  p.columns = static_cast<int>(each * up_columns);
  p.column_blocks = static_cast<int>((pieces + each - 1) / each);
  return p;
}

inline float* take_low(const Params& p, Arena& arena) {
  return static_cast<float*>(
      arena.bytes(sizeof(float) * static_cast<size_t>(p.splits) * static_cast<size_t>(p.rows * p.width)));
}
inline unsigned grid_x(int64_t tiles, int64_t blocks) {
  require(tiles * blocks < (int64_t{1} << 31), "lora: expected fewer rows, got {} blocks of them", tiles);
  return static_cast<unsigned>(tiles * blocks);
}
inline dim3 down_grid(const Params& p, int tile) {
  return dim3(grid_x((p.rows + tile - 1) / tile, p.chunks), static_cast<unsigned>(p.splits));
}
inline dim3 up_grid(const Params& p, int tile) {
  return dim3(grid_x((p.rows + tile - 1) / tile, p.column_blocks),
              static_cast<unsigned>(p.index ? p.adapters : 1));
}

}  // namespace tachy::ops::lora_gpu
