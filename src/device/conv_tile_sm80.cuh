// Implicit GEMM of a convolution by mma.sync in large tiles (bf16, f16): rows are positions of the output,
// columns its channels, and K goes over taps and, within a tap, channels. It takes kernels of at most 32 taps
// whose channels are a multiple of 8; conv_sm80.cuh does the rest.
//
// A thread copies the same 16 bytes of a few positions for every stage. Once per tile it finds out where a
// position begins to read, and which of its taps lie inside the picture and among the existing frames: one
// bit for each tap.
#pragma once

#include "device/conv_sm80.cuh"
#include "device/tile_sm80.cuh"

namespace tachy::device {

struct ConvTileParams {
  Conv80Params conv;
  int positions;         // the positions of all output frames together
  int tiles_m, tiles_n;  // tiles of one phase
};

// A tile's phase, first position and first channel. Tiles of the same positions follow one another, because
// they read the same x.
template <class S>
struct ConvTileCorner {
  int phase, position, channel;
  __device__ __forceinline__ ConvTileCorner(const ConvTileParams& p, int index) {
    const int row = index / p.tiles_n;
    channel = (index - row * p.tiles_n) * S::kColumns;
    phase = row / p.tiles_m, position = (row - phase * p.tiles_m) * S::kRows;
  }
};

struct ConvSpot {
  int frame, row, column;  // place in the output (of one phase)
  __device__ __forceinline__ ConvSpot(const ConvShape& s, int position) {
    const int line = position / s.width;
    frame = line / s.height, row = line - frame * s.height, column = position - line * s.width;
  }
};

template <class S, class T>
struct ConvTileCopies {
  static constexpr bool kSpread = false;         // it would be up to 10 % slower
  static constexpr int kValues = S::kDepth / 2;  // values of a stage; a tap's channels are whole stages
  const ConvTileParams& p;
  uint32_t to;
  int tile = static_cast<int>(blockIdx.x), stages, left = 0;  // stages of a tile, and those left
  // Where the next tap begins, counted from the first pixel of frame 0 of x; it may be negative.
  int pixel[S::kPassesX];
  uint32_t taps[S::kPassesX];  // the existing taps, with the next one in bit 0
  const T* from[S::kPassesX];  // what the next stage copies
  uint32_t present = 0;        // whether the next stage copies anything: one bit for each pass
  const T* weights = nullptr;
  int channels = 0;  // the last output channel, counted from the tile's first
  int row = 0, column = 0, c = 0;
  uint32_t base = 0;  // where the stage that is being copied begins in shared memory
  int mine = 0;       // its channels from this thread's first on

  __device__ __forceinline__ ConvTileCopies(const ConvTileParams& params, uint32_t shared, int stages_of_tile)
      : p(params), to(shared + tile::my_place()), stages(stages_of_tile) {}

  __device__ __forceinline__ void next_tile() {
    row = column = c = 0, left = stages;
    const ConvShape& s = p.conv.s;
    const bool more = tile < p.tiles_m * p.tiles_n * s.phases;
    const ConvTileCorner<S> corner(p, more ? tile : 0);
    // Rows beyond the last one of the weights are read as the last one, since their sums are not stored.
    weights = static_cast<const T*>(p.conv.weights) +
              (static_cast<int64_t>(corner.phase) * s.co + corner.channel) * p.conv.k + tile::my_chunk() * 8;
    channels = s.co - 1 - corner.channel;
#pragma unroll 1
    for (int i = 0; i < S::kPassesX; ++i) {
      const int at = corner.position + tile::my_row() + i * S::kPassRows;
      const ConvSpot spot(s, at);
      const int frame = spot.frame * s.time_stride - s.front,
                y = spot.row * s.stride - s.pad_top + corner.phase / 2,
                x = spot.column * s.stride - s.pad_left + corner.phase % 2;
      uint32_t columns = 0, bits = 0;
      for (int q = 0; q < s.kernel_w; ++q)
        columns |= static_cast<uint32_t>(x + q >= 0 && x + q < s.in_width) << q;
      for (int t = 0, bit = 0; t < s.kernel_t; ++t)
        for (int q = 0; q < s.kernel_h; ++q, bit += s.kernel_w)
          if (frame + t >= -s.history && y + q >= 0 && y + q < s.in_height) bits |= columns << bit;
      if (!more || at >= p.positions) bits = 0;
#pragma unroll
      for (int j = 0; j < S::kPassesX; ++j)
        if (j == i) pixel[j] = (frame * s.in_height + y) * s.in_width + x, taps[j] = bits;
    }
    tile += static_cast<int>(gridDim.x);
  }

  // Finds where the next tap's channels begin. Pixels of the cache have negative numbers.
  __device__ __forceinline__ void next_tap() {
    const ConvShape& s = p.conv.s;
    const T *x = static_cast<const T*>(p.conv.x) + tile::my_chunk() * 8,
            *cache = static_cast<const T*>(p.conv.cache) + tile::my_chunk() * 8 +
                     static_cast<int64_t>(s.cache_frames) * s.in_height * s.in_width * s.ci;
    int pixels = 1;
    if (++column == s.kernel_w) {
      column = 0, pixels += s.in_width - s.kernel_w;
      if (++row == s.kernel_h) row = 0, pixels += (s.in_height - s.kernel_h) * s.in_width;
    }
    present = 0;
#pragma unroll
    for (int i = 0; i < S::kPassesX; ++i) {
      from[i] = (pixel[i] >= 0 ? x : cache) + static_cast<int64_t>(pixel[i]) * s.ci;
      present |= (taps[i] & 1) << i;
      pixel[i] += pixels, taps[i] >>= 1;
    }
  }

  __device__ __forceinline__ void begin(int slot) {
    if (left == 0) next_tile();
    if (c == 0) next_tap();
    base = to + static_cast<uint32_t>(slot * S::kStageBytes);
    mine = p.conv.s.ci - c - tile::my_chunk() * 8;
  }
  __device__ __forceinline__ void part(int index, int parts) {
    constexpr int kPasses = S::kPassesX + S::kPassesW;
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      if (i * parts / kPasses != index) continue;
      if (i < S::kPassesX) {
#pragma unroll
        for (int slab = 0; slab < S::kSlabs; ++slab)
          copy_async(base + slab * S::kSlabBytes + i * S::kPassRows * 64, from[i % S::kPassesX] + slab * 32,
                     (present >> i & 1) && mine > slab * 32);
        continue;
      }
      const int pass = i - S::kPassesX, at = tile::my_row() + pass * S::kPassRows;
      if (S::kColumns % S::kPassRows == 0 || pass + 1 < S::kPassesW || at < S::kColumns) {
        const T* w = weights + static_cast<int64_t>(min(at, channels)) * p.conv.k;
#pragma unroll
        for (int slab = 0; slab < S::kSlabs; ++slab)
          copy_async(base + slab * S::kSlabBytes + (S::kRows + pass * S::kPassRows) * 64, w + slab * 32,
                     true);
      }
    }
  }
  __device__ __forceinline__ void end() {
    commit_copies();
    --left, weights += kValues;
    if ((c += kValues) == p.conv.padded_ci) c = 0;
#pragma unroll
    for (int i = 0; i < S::kPassesX; ++i) from[i] += kValues;
  }
};

// y = sums + bias + residual. Eight rows at a time go through shared memory, so that a lane stores eight
// neighbouring values.
template <class S, class T>
__device__ __forceinline__ void store_conv_tile(const ConvTileParams& p, const tile::Sums<S>& sums,
                                                float* out, int phase, int position, int channel) {
  constexpr int kLanes = S::kWarpColumns / 8, kUnits = 8 * kLanes, kPasses = (kUnits + 31) / 32;
  const ConvShape& s = p.conv.s;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Where rows lie in y: lane l knows rows l and l + 32.
  int64_t places[S::kWarpRows / 32];
#pragma unroll
  for (int i = 0; i < S::kWarpRows / 32; ++i) {
    const ConvSpot spot(s, position + i * 32 + lane);
    places[i] = spot.frame * s.y_frame + spot.row * s.y_row + spot.column * s.y_column +
                phase / 2 * s.y_phase_row + phase % 2 * s.y_phase_column;
  }
#pragma unroll 1
  for (int i = 0; i < S::kWarpRows / 8; ++i) {
    tile::put_rows<S>(sums, out, i);
    __syncwarp();
    const int64_t eight_places = S::kWarpRows > 32 && i >= 4 ? places[S::kWarpRows / 32 - 1] : places[0];
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int unit = pass * 32 + lane, row = unit / kLanes, first = channel + unit % kLanes * 8;
      const int64_t place = __shfl_sync(0xffffffffu, eight_places, (i * 8 + row) % 32) + first;
      if (unit >= kUnits || position + i * 8 + row >= p.positions || first >= s.co) continue;
      float v[8], more[8];
      tile::read_shared(out + row * S::kPitch + unit % kLanes * 8, v);
      if (s.bias) {
        tile::read_eight(static_cast<const float*>(s.bias) + first, more, 8, true);
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] += more[c];
      }
      if (s.residual) {
        tile::read_eight(static_cast<const T*>(s.residual) + place, more, 8, true);
#pragma unroll
        for (int c = 0; c < 8; ++c) v[c] += more[c];
      }
      tile::write_eight(static_cast<T*>(s.y) + place, v, 8, true);
    }
    __syncwarp();
  }
}

template <class S, class T>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    conv_tile_sm80(const __grid_constant__ ConvTileParams p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const tile::WarpPlace<S> place(shared);
  const int stages = p.conv.k / ConvTileCopies<S, T>::kValues;
  ConvTileCopies<S, T> copies(p, shared_address(shared), stages);
  tile::walk_tiles<S>(copies, place, stages, p.tiles_m * p.tiles_n * p.conv.s.phases,
                      [&](int index, const tile::Sums<S>& sums) {
                        const ConvTileCorner<S> corner(p, index);
                        store_conv_tile<S, T>(p, sums, place.out, corner.phase, corner.position + place.row,
                                              corner.channel + place.column);
                      });
}

}  // namespace tachy::device
