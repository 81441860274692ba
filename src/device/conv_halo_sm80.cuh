// Implicit GEMM of a 3x3 or 3x3x3 convolution without strides by mma.sync, with all nine taps of a frame read
// from one copy of x. A tile is a rectangle of positions, 16 columns wide, times a range of output channels.
// For 64 or 32 bytes of input channels of one frame (a unit) shared memory holds the rectangle and one pixel
// around it, so that x is copied once and not nine times. The four phases of an upsampling, whose kernels are
// 2x2, are done in the same way. conv_tile_sm80.cuh takes the other kernels.
//
//   K          frames of the kernel, then units of channels, then the taps, then the unit's channels
//   pipeline   x of two units, weights in three stages (four for 2x2, so that a tap keeps its stage). Pixels
//              and rows of weights are padded by 16 bytes: eight neighbours lie in different banks, and a tap
//              is a constant added to an address
//   fragments  are each loaded again right after their last use, so that there is one set of them and three
//              warps fit a scheduler
//   addresses  A multiply-add of addresses takes the tensor cores' time: it reads registers through the same
//              ports. So the taps are written out, and where a pixel lies in a frame is computed once
//              for a tile and kept in shared memory.
#pragma once

#include "device/conv_pack.cuh"
#include "device/conv_sm80.cuh"
#include "device/tile_sm80.cuh"

namespace tachy::device {

// Tiles of kRows x 16 positions and kColumns channels; a warp owns 4 x 16 positions and kWarpColumns
// channels. kBlocks blocks share a multiprocessor, and a unit has kBytes of each pixel. A stage has the weights
// of kTaps taps, one or three. The kernel of a frame has kKernel x kKernel taps: 3, or 2 for phases.
template <class Kind_, int kRows_, int kColumns_, int kWarpColumns_, int kBlocks_, int kBytes_ = 64,
          int kTaps_ = 1, int kKernel_ = 3>
struct HaloShape {
  using Kind = Kind_;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kWarpRows = 64, kWarpColumns = kWarpColumns_,
                       kBlocks = kBlocks_;
  static constexpr int kWarpsAcross = kColumns / kWarpColumns, kWarps = kRows / 4 * kWarpsAcross,
                       kThreads = kWarps * 32;
  static constexpr int kKernel = kKernel_, kAllTaps = kKernel * kKernel, kPhases = kKernel == 2 ? 4 : 1;
  static constexpr int kSide = 16, kLine = kSide + kKernel - 1, kPixels = (kRows + kKernel - 1) * kLine;
  static constexpr int kBytes = kBytes_, kPitch = kBytes + 16, kStages = kKernel == 2 ? 4 : 3,
                       kSteps = kBytes / 32;
  static constexpr int kChunks = kBytes / 16;
  static constexpr int kPassRows = kThreads / kChunks;  // pixels or rows that the threads copy at once
  static constexpr int kPassesX = (kPixels + kPassRows - 1) / kPassRows,
                       kPassesW = (kColumns + kPassRows - 1) / kPassRows;
  // Copies that begin before the unit's last stage have arrived when the next unit begins.
  static constexpr int kTaps = kTaps_, kTapsX = kAllTaps - kTaps,
                       kPassesOfTap = (kPassesX + kTapsX - 1) / kTapsX;
  static constexpr int kBytesX = kPixels * kPitch, kBytesW = kColumns * kPitch;  // of a tap's weights
  static constexpr int kAllBytesW = kStages * kTaps * kBytesW;
  static constexpr int kSharedBytes = 2 * kBytesX + kAllBytesW + kPassesX * kPassRows * 4;
  static constexpr int kNormBytes = kWarps * kWarpRows * 4;  // more, where the tile is normalised
  static_assert((kAllTaps / kTaps) % kStages == 0, "a tap's weights lie in the same stage in every unit");
  static_assert(kRows % 4 == 0 && kColumns % kWarpColumns == 0 && kWarpColumns % 16 == 0 &&
                kPassRows % 8 == 0);
};

struct ConvHaloParams {
  Conv80Params conv;
  int tiles_h, tiles_w, tiles_n;  // rectangles of a frame, tiles of channels
  int work;                       // all tiles
  const float* scale;             // [Co], what sums of codes are multiplied by
  // For the norm over the channels, which all lie in one tile: y is null if only the norm is wanted.
  const float* gamma;
  float root;  // √Co
  bool silu;
  void* normed;
};

// A tile's output frame, phase, first row, first column and first channel. Tiles of the same pixels follow
// one another.
template <class S>
struct HaloCorner {
  int frame, phase, row, column, channel;
  __device__ __forceinline__ HaloCorner(const ConvHaloParams& p, int index) {
    int rest = index / p.tiles_n;
    channel = (index - rest * p.tiles_n) * S::kColumns;
    phase = rest % S::kPhases, rest /= S::kPhases;
    const int spot = rest / p.conv.s.frames;
    frame = rest - spot * p.conv.s.frames;
    rest = spot / p.tiles_w;
    row = rest * S::kRows, column = (spot - rest * p.tiles_w) * S::kSide;
  }
};

// copy_async where `wanted`, without a branch: branches would keep products and loads from being mixed.
__device__ __forceinline__ void copy_async_if(bool wanted, uint32_t to, const void* from, bool present) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;}" ::"r"(
          to),
      "l"(from), "r"(present ? 16 : 0), "r"(static_cast<int>(wanted)));
#else
  if (wanted) copy_async(to, from, present);
#endif
}

// The copies: x is one unit ahead of the products, and the weights are two stages ahead.
template <class S>
struct HaloCopies {
  const ConvHaloParams& p;
  int* places;  // of this thread's pixels in a frame, in bytes; negative outside
  int next_place = 0;
  int first;  // this thread's pixel, and its row of the weights, in the first pass
  uint32_t to_x, to_w;
  int pixel_bytes;        // bytes of a pixel of x, which a tap's weights for one row have as well
  int tile, frame, r, c;  // of the unit that is ahead
  const char *from_x, *from_w;
  const char* next_w;  // the weights that are copied next
  int more_rows[S::kPassesW],
      next_more_rows[S::kPassesW];  // from the first pass's row to those of the others

  __device__ __forceinline__ HaloCopies(const ConvHaloParams& params, uint8_t* shared)
      : p(params),
        first(static_cast<int>(threadIdx.x) / S::kChunks),
        pixel_bytes(p.conv.s.ci * S::Kind::kElementBytes) {
    to_x = shared_address(shared) + static_cast<uint32_t>(first * S::kPitch) + threadIdx.x % S::kChunks * 16;
    to_w = to_x + 2 * S::kBytesX;
    places = reinterpret_cast<int*>(shared + 2 * S::kBytesX + S::kAllBytesW) + first;
    tile = static_cast<int>(blockIdx.x);
    begin_tile();
  }
  __device__ __forceinline__ void begin_tile() {
    const ConvShape& s = p.conv.s;
    const bool more = tile < p.work;
    const HaloCorner<S> corner(p, more ? tile : 0);
    const int row = corner.row - s.pad_top + corner.phase / 2,
              column = corner.column - s.pad_left + corner.phase % 2;
    frame = corner.frame * s.time_stride - s.front;
    r = max(0, -s.history - frame), c = 0;
    // The threads of a pixel belong to one warp, and all of them write the same.
    __syncwarp();
#pragma unroll 1
    for (int pass = 0; pass < S::kPassesX; ++pass) {
      const int pixel = first + pass * S::kPassRows, line = pixel / S::kLine, y = row + line,
                x = column + pixel - line * S::kLine;
      const bool inside = more && y >= 0 && y < s.in_height && x >= 0 && x < s.in_width;
      places[pass * S::kPassRows] = inside ? (y * s.in_width + x) * pixel_bytes : -16;
    }
    __syncwarp();
    // Rows beyond the last one are read as the last one, since their sums are not stored.
    const int row_bytes = S::kAllTaps * s.kernel_t * pixel_bytes, last = s.co - 1 - corner.channel,
              mine = min(first, last) * row_bytes;
    from_w = static_cast<const char*>(p.conv.weights) +
             (static_cast<int64_t>(corner.phase) * s.co + corner.channel) * row_bytes + mine +
             r * S::kAllTaps * pixel_bytes + threadIdx.x % S::kChunks * 16;
#pragma unroll
    for (int pass = 0; pass < S::kPassesW; ++pass)
      more_rows[pass] = min(first + pass * S::kPassRows, last) * row_bytes - mine;
    begin_frame();
  }
  __device__ __forceinline__ void begin_frame() {
    const ConvShape& s = p.conv.s;
    const int at = frame + r;
    from_x =
        static_cast<const char*>(at >= 0 ? p.conv.x : p.conv.cache) + threadIdx.x % S::kChunks * 16 +
        static_cast<int64_t>(at >= 0 ? at : s.cache_frames + at) * s.in_height * s.in_width * pixel_bytes;
  }
  // The unit that was ahead is multiplied from now on.
  __device__ __forceinline__ void next_unit() {
    if ((c += S::kBytes) < pixel_bytes) {
      from_x += S::kBytes, from_w += S::kBytes;
      return;
    }
    c = 0, from_w += S::kBytes + (S::kAllTaps - 1) * pixel_bytes;
    if (++r < p.conv.s.kernel_t) return begin_frame();
    tile += static_cast<int>(gridDim.x);
    begin_tile();
  }
  // Copies one pass of x of the unit ahead to a buffer at `offset`.
  __device__ __forceinline__ void copy_x(uint32_t offset, int pass) {
    const int place = pass ? next_place : places[0];
    const uint32_t to = to_x + offset + pass * S::kPassRows * S::kPitch;
    if ((pass + 1) * S::kPassRows <= S::kPixels)
      copy_async(to, from_x + place, place >= 0);
    else
      copy_async_if(first + pass * S::kPassRows < S::kPixels, to, from_x + place, place >= 0);
    if (pass + 1 < S::kPassesX) next_place = places[(pass + 1) * S::kPassRows];
  }
  __device__ __forceinline__ void begin_weights() {
    next_w = from_w;
#pragma unroll
    for (int pass = 0; pass < S::kPassesW; ++pass) next_more_rows[pass] = more_rows[pass];
  }
  __device__ __forceinline__ void copy_w(int slot) {
#pragma unroll
    for (int pass = 0; pass < S::kPassesW; ++pass) {
      const uint32_t to = to_w + slot * S::kBytesW + pass * S::kPassRows * S::kPitch;
      const char* from = pass ? next_w + next_more_rows[pass] : next_w;
      if ((pass + 1) * S::kPassRows <= S::kColumns)
        copy_async(to, from, true);
      else
        copy_async_if(first + pass * S::kPassRows < S::kColumns, to, from, true);
    }
    next_w += pixel_bytes;
  }
};

template <class S>
struct HaloFragments {
  uint32_t x[4][4], w[S::kWarpColumns / 16][4];

  __device__ __forceinline__ void load_x(int i, uint32_t from) {
    load_tiles(x[i], from + i * S::kLine * S::kPitch);
  }
  __device__ __forceinline__ void load_w(int j, uint32_t from) {
    load_tiles(w[j], from + j * 16 * S::kPitch);
  }
  __device__ __forceinline__ void load(uint32_t from_x, uint32_t from_w) {
#pragma unroll
    for (int i = 0; i < 4; ++i) load_x(i, from_x);
#pragma unroll
    for (int j = 0; j < S::kWarpColumns / 16; ++j) load_w(j, from_w);
  }
};

template <class S>
using HaloSums = typename S::Kind::Sum[4][S::kWarpColumns / 8][4];

// Multiplies 32 bytes of K, and puts the next 32 bytes' fragments in the place of these. ready() is called
// before the first of them is loaded.
template <class S, class Ready>
__device__ __forceinline__ void halo_step(HaloSums<S>& sums, HaloFragments<S>& f, uint32_t next_x,
                                          uint32_t next_w, Ready&& ready) {
  constexpr int kPairs = S::kWarpColumns / 16;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      S::Kind::multiply(sums[i][2 * j], f.x[i], f.w[j][0], f.w[j][1]);
      S::Kind::multiply(sums[i][2 * j + 1], f.x[i], f.w[j][2], f.w[j][3]);
      if (j == kPairs - 1) f.load_x(i, next_x);
    }
    if (j == 0) ready();
    f.load_w(j, next_w);
  }
}

// Where a lane reads and writes in y and the residual. A quad of lanes exchanges words, so that each has
// eight neighbouring channels of a position: for each line of the tile there are kUnits such exchanges, of
// four blocks of eight channels at one position or, at last, of two blocks at two positions.
template <class S, class T>
struct HaloPlaces {
  static constexpr int kBlocks = S::kWarpColumns / 8, kUnits = kBlocks / 4 * 2 + (kBlocks % 4 + 1) / 2;
  const ConvShape& s;
  int row, column, channel, quad;
  int64_t first;

  __device__ __forceinline__ HaloPlaces(const ConvHaloParams& p, const HaloCorner<S>& corner, int warp_row,
                                        int warp_column)
      : s(p.conv.s) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row = corner.row + warp_row, column = corner.column + lane / 4, channel = corner.channel + warp_column;
    quad = lane % 4;
    first = corner.frame * s.y_frame + row * s.y_row + column * s.y_column + channel;
    if (S::kPhases > 1) first += corner.phase / 2 * s.y_phase_row + corner.phase % 2 * s.y_phase_column;
  }
  __device__ static constexpr bool two_blocks(int unit) { return unit / 2 * 4 + 4 > kBlocks; }
  __device__ __forceinline__ int half(int unit) const { return two_blocks(unit) ? quad / 2 : unit % 2; }
  __device__ __forceinline__ int block(int unit) const {
    return unit / 2 * 4 + (two_blocks(unit) ? quad % 2 : quad);
  }
  __device__ __forceinline__ bool inside(int i, int unit) const {
    return row + i < s.height && column + half(unit) * 8 < s.width && channel + block(unit) * 8 < s.co;
  }
  __device__ __forceinline__ int64_t place(int i, int unit) const {
    return first + i * s.y_row + half(unit) * 8 * s.y_column + block(unit) * 8;
  }
  __device__ __forceinline__ void read(int i, uint4 (&to)[kUnits]) const {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      to[unit] = {};
      if (s.residual && inside(i, unit))
        to[unit] = *reinterpret_cast<const uint4*>(static_cast<const T*>(s.residual) + place(i, unit));
    }
  }
};

// Asks for the residual of a tile, which is needed after its last product.
template <class S, class T>
__device__ __forceinline__ void fetch_residual(const ConvHaloParams& p, const HaloCorner<S>& corner,
                                               int warp_row, int warp_column) {
  const ConvShape& s = p.conv.s;
  const int lane = static_cast<int>(threadIdx.x) % 32, column = corner.column + lane % 16;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = corner.row + warp_row + i * 2 + lane / 16;
    const T* at = static_cast<const T*>(s.residual) + corner.frame * s.y_frame + row * s.y_row +
                  column * s.y_column + corner.channel + warp_column;
    if (row >= s.height || column >= s.width || corner.channel + warp_column + S::kWarpColumns > s.co)
      continue;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at + S::kWarpColumns - 1));
  }
}

// For bf16: x/2·(1 + tanh(x/2)), whose one approximate instruction has a smaller error than the result's
// rounding.
__device__ __forceinline__ float halo_silu(float x, __nv_bfloat16) {
  const float half = 0.5f * x;
  return fmaf(half, tanh_approx(half), half);
}
__device__ __forceinline__ float halo_silu(float x, __half) { return x * sigmoid<true>(x); }

// Writes the norm of each position over its channels, some of which belong to the warps beside this one. They
// tell one another their sums of squares in `exchange`.
template <class S, class T>
__device__ __forceinline__ void store_halo_norm(const ConvHaloParams& p, const HaloSums<S>& sums,
                                                const HaloPlaces<S, T>& places, float* exchange) {
  using Places = HaloPlaces<S, T>;
  const int warp = static_cast<int>(threadIdx.x) / 32, first = warp / S::kWarpsAcross * S::kWarpsAcross,
            position = static_cast<int>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float squares = 0;
#pragma unroll
    for (int block = 0; block < Places::kBlocks; ++block) {
      const float a = sums[i / 2][block][i % 2 * 2], b = sums[i / 2][block][i % 2 * 2 + 1];
      squares = fmaf(a, a, fmaf(b, b, squares));
    }
    squares += __shfl_xor_sync(~0u, squares, 1);
    squares += __shfl_xor_sync(~0u, squares, 2);
    if (places.quad == 0) exchange[warp * S::kWarpRows + i * 8 + position] = squares;
  }
  asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / S::kWarpsAcross), "n"(S::kWarpsAcross * 32) : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float factor[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int other = 0; other < S::kWarpsAcross; ++other)
        factor[half] += exchange[(first + other) * S::kWarpRows + i * 16 + half * 8 + position];
      factor[half] = p.root / fmaxf(sqrtf(factor[half]), 1e-12f);
    }
#pragma unroll
    for (int unit = 0; unit < Places::kUnits; ++unit) {
      const bool both = Places::two_blocks(unit);
      uint32_t v[4] = {};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int block = unit / 2 * 4 + (both ? k % 2 : k), half = both ? k / 2 : unit % 2;
        if (block >= Places::kBlocks) continue;
        const int o = places.channel + block * 8 + places.quad * 2;
        float2 gamma = {};
        if (o < p.conv.s.co) gamma = __ldg(reinterpret_cast<const float2*>(p.gamma + o));
        const float a = sums[i][block][half * 2] * factor[half] * gamma.x,
                    b = sums[i][block][half * 2 + 1] * factor[half] * gamma.y;
        v[k] = p.silu ? pack2(halo_silu(a, T{}), halo_silu(b, T{}), T{}) : pack2(a, b, T{});
      }
      transpose_quad(v);
      if (places.inside(i, unit))
        *reinterpret_cast<uint4*>(static_cast<T*>(p.normed) + places.place(i, unit)) =
            make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
}

// y = sums + bias + residual; sums of codes are scaled first. With kNorm the norm goes to p.normed.
template <class S, class T, bool kNorm>
__device__ __forceinline__ void store_halo_tile(const ConvHaloParams& p, HaloSums<S>& sums,
                                                const HaloCorner<S>& corner, int warp_row, int warp_column,
                                                float* exchange) {
  using Places = HaloPlaces<S, T>;
  const Places places(p, corner, warp_row, warp_column);
  const ConvShape& s = p.conv.s;
  const float* bias = static_cast<const float*>(s.bias);
  uint4 residual[2][Places::kUnits];
  places.read(0, residual[0]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < 3) places.read(i + 1, residual[(i + 1) % 2]);
#pragma unroll
    for (int unit = 0; unit < Places::kUnits; ++unit) {
      constexpr int kBlocks = Places::kBlocks;
      const bool both = Places::two_blocks(unit);
      const uint4 four = residual[i % 2][unit];
      uint32_t v[4] = {four.x, four.y, four.z, four.w};
      if (s.residual) transpose_quad(v);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int block = unit / 2 * 4 + (both ? k % 2 : k), half = both ? k / 2 : unit % 2;
        if (block >= kBlocks) continue;
        const int o = places.channel + block * 8 + places.quad * 2;
        const float2 more = unpack2(v[k], T{});
        constexpr bool kCodes = S::Kind::kElementBytes == 1;
        float2 add = {}, scale = {1, 1};
        if (kCodes && o < s.co) scale = __ldg(reinterpret_cast<const float2*>(p.scale + o));
        if (bias && o < s.co) add = __ldg(reinterpret_cast<const float2*>(bias + o));
        auto& sum = sums[i][block];
        const float a = fmaf(static_cast<float>(sum[half * 2]), scale.x, add.x) + more.x,
                    b = fmaf(static_cast<float>(sum[half * 2 + 1]), scale.y, add.y) + more.y;
        v[k] = pack2(a, b, T{});
        if constexpr (kNorm) sum[half * 2] = o < s.co ? a : 0, sum[half * 2 + 1] = o < s.co ? b : 0;
      }
      if (kNorm && !s.y) continue;
      transpose_quad(v);
      if (places.inside(i, unit))
        *reinterpret_cast<uint4*>(static_cast<T*>(s.y) + places.place(i, unit)) =
            make_uint4(v[0], v[1], v[2], v[3]);
    }
  }
  if constexpr (kNorm) store_halo_norm<S, T>(p, sums, places, exchange);
}

template <class S, class T, bool kNorm = false>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    conv_halo_sm80(const __grid_constant__ ConvHaloParams p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const uint32_t base = shared_address(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / S::kWarpsAcross * 4, warp_column = warp % S::kWarpsAcross * S::kWarpColumns;
  // Lane l gives row l % 8 of tile l / 8: in x the tiles go along a line first, in w along K first.
  uint32_t from_x =
      base + static_cast<uint32_t>((warp_row * S::kLine + lane % 16) * S::kPitch + lane / 16 * 16);
  const uint32_t from_w =
      base + 2 * S::kBytesX +
      static_cast<uint32_t>((warp_column + lane % 8 + lane / 16 * 8) * S::kPitch + lane / 8 % 2 * 16);
  HaloCopies<S> copies(p, shared);
#pragma unroll
  for (int pass = 0; pass < S::kPassesX; ++pass) copies.copy_x(0, pass);
  copies.begin_weights();
#pragma unroll
  for (int tap = 0; tap < 2 * S::kTaps; ++tap) {
    copies.copy_w(tap);
    if ((tap + 1) % S::kTaps == 0) commit_copies();
  }
  wait_copies<1>();
  __syncthreads();
  HaloFragments<S> f;
  uint32_t other = S::kBytesX;  // where the buffer begins into which x is copied
  for (int tile = static_cast<int>(blockIdx.x); tile < p.work; tile += static_cast<int>(gridDim.x)) {
    HaloSums<S> sums = {};
    if (p.conv.s.residual) fetch_residual<S, T>(p, HaloCorner<S>(p, tile), warp_row, warp_column);
    // The step before has loaded them already, but so their registers are free while a tile is stored.
    f.load(from_x, from_w);
    do {
      copies.next_unit();
      const uint32_t next_x = other ? from_x + S::kBytesX : from_x - S::kBytesX;
#pragma unroll
      for (int tap = 0; tap < S::kAllTaps; ++tap) {
        constexpr int kSlots = S::kStages * S::kTaps;
        const bool last = (tap + 1) % S::kTaps == 0;  // of its stage
        if (tap == S::kAllTaps - 2 * S::kTaps) copies.begin_weights();
        copies.copy_w((tap + 2 * S::kTaps) % kSlots);
#pragma unroll
        for (int i = 0; i < S::kPassesOfTap; ++i)
          if (const int pass = tap * S::kPassesOfTap + i; pass < S::kPassesX) copies.copy_x(other, pass);
        if (last) commit_copies();
        const auto place = [](int t) { return (t / S::kKernel * S::kLine + t % S::kKernel) * S::kPitch; };
        const uint32_t x = from_x + place(tap), w = from_w + tap % kSlots * S::kBytesW;
        if constexpr (S::kSteps == 2) halo_step<S>(sums, f, x + 32, w + 32, [] {});
        const uint32_t then = tap == S::kAllTaps - 1 ? next_x : from_x + place(tap + 1);
        halo_step<S>(sums, f, then, from_w + (tap + 1) % kSlots * S::kBytesW, [&] {
          if (!last) return;
          wait_copies<1>();
          __syncthreads();
        });
      }
      from_x = next_x, other = S::kBytesX - other;
    } while (copies.tile == tile);
    const HaloCorner<S> corner(p, tile);
    store_halo_tile<S, T, kNorm>(p, sums, corner, warp_row, warp_column,
                                 reinterpret_cast<float*>(shared + S::kSharedBytes));
  }
  wait_copies<0>();
}

}  // namespace tachy::device
