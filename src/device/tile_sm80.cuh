// Code for kernels that multiply tiles with mma.sync (byte_gemm.cuh, conv_tile_sm80.cuh). Shared memory holds
// the operands in stages; a stage is kSlabs slabs, and a slab holds 64 bytes along K of each row of both
// operands, as four chunks of 16 bytes. A row's number changes the order of its chunks, so that the
// eight rows that ldmatrix reads at once lie in different banks. Each warp owns a rectangle of the tile and
// multiplies 32 bytes of K at a time, whatever the elements are.
#pragma once

#include "device/mma_sm80.cuh"
#include "device/numeric.cuh"
#include "device/vec.cuh"

namespace tachy::device::tile {

// c += a·b over 32 bytes of K, with the fragments of m16n8k16 (mma_sm80.cuh), but four codes in place of two
// values.
struct Int8 {
  using Sum = int32_t;
  static constexpr int kElementBytes = 1;
  __device__ __forceinline__ static void multiply(Sum (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    const auto part = [](Sum& c0, Sum& c1, uint32_t a_part, uint32_t b_part) {
      asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
          : "+r"(c0), "+r"(c1)
          : "r"(a_part), "r"(b_part));
    };
    part(c[0], c[1], a[0], b0), part(c[0], c[1], a[2], b1);
    part(c[2], c[3], a[1], b0), part(c[2], c[3], a[3], b1);
#endif
  }
};
struct E4m3 {
  using Sum = float;
  static constexpr int kElementBytes = 1;
  __device__ __forceinline__ static void multiply(Sum (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
#if __CUDA_ARCH__ >= 890
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    asm volatile("trap;");
#endif
  }
};
template <class T>
struct Halves {  // bf16 or f16
  using Sum = float;
  static constexpr int kElementBytes = 2;
  __device__ __forceinline__ static void multiply(Sum (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
    mma<T>(c, a, b0, b1);
  }
};

// Tiles of kRows x kColumns, of which a warp owns kWarpRows x kWarpColumns. There are kStages stages of
// kSlabs times 64 bytes of K; kBlocks blocks share a multiprocessor.
template <class Kind_, int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kSlabs_,
          int kStages_, int kBlocks_, int kBuffers_ = 2>
struct Shape {
  using Kind = Kind_;
  using Sum = typename Kind::Sum;
  static constexpr int kRows = kRows_, kColumns = kColumns_, kWarpRows = kWarpRows_,
                       kWarpColumns = kWarpColumns_, kSlabs = kSlabs_, kStages = kStages_, kBlocks = kBlocks_,
                       kBuffers = kBuffers_;
  static constexpr int kWarpsAcross = kColumns / kWarpColumns, kWarps = kRows / kWarpRows * kWarpsAcross,
                       kThreads = kWarps * 32;
  static constexpr int kDepth = kSlabs * 64, kSteps = kSlabs * 2;
  static constexpr int kPassRows = kThreads / 4;  // rows whose chunks the threads of a block copy at once
  static constexpr int kPassesX = (kRows + kPassRows - 1) / kPassRows,
                       kPassesW = (kColumns + kPassRows - 1) / kPassRows;
  static constexpr int kSlabBytes = (kRows + kColumns) * 64, kStageBytes = kSlabs * kSlabBytes;
  static constexpr int kPitch = kWarpColumns + 8;  // floats of a row on its way to memory
  static constexpr int kSharedBytes = kStages * kStageBytes + kWarps * 8 * kPitch * 4;
  static_assert(kRows % kPassRows == 0 && kPassRows % 8 == 0 && kWarpRows % 32 == 0 &&
                kWarpColumns % 16 == 0);
};

// Where a chunk lies within its row, in bytes.
__device__ __forceinline__ int swizzled(int row, int chunk) { return (chunk ^ (row >> 1 & 3)) * 16; }
// The chunk that a thread copies and, below, its first row.
__device__ __forceinline__ int my_chunk() { return static_cast<int>(threadIdx.x) % 4; }
__device__ __forceinline__ int my_row() { return static_cast<int>(threadIdx.x) / 4; }
__device__ __forceinline__ uint32_t my_place() {
  return static_cast<uint32_t>(my_row() * 64 + swizzled(my_row(), my_chunk()));
}

template <class S>
struct Fragments {
  uint32_t x[S::kWarpRows / 16][4], w[S::kWarpColumns / 16][4];

  // Loads 32 bytes of a stage, with the number `step`; the addresses are those of the first 32.
  __device__ __forceinline__ void load(uint32_t from_x, uint32_t from_w, int step) {
    const uint32_t flip = static_cast<uint32_t>(step % 2) * 32,
                   slab = static_cast<uint32_t>(step / 2) * S::kSlabBytes;
#pragma unroll
    for (int i = 0; i < S::kWarpRows / 16; ++i) load_tiles(x[i], (from_x ^ flip) + slab + i * 16 * 64);
#pragma unroll
    for (int i = 0; i < S::kWarpColumns / 16; ++i) load_tiles(w[i], (from_w ^ flip) + slab + i * 16 * 64);
  }
};

template <class S>
using Sums = typename S::Sum[S::kWarpRows / 16][S::kWarpColumns / 8][4];

template <class S>
__device__ __forceinline__ void multiply_all(Sums<S>& sums, const Fragments<S>& f) {
#pragma unroll
  for (int i = 0; i < S::kWarpRows / 16; ++i)
#pragma unroll
    for (int j = 0; j < S::kWarpColumns / 8; ++j)
      S::Kind::multiply(sums[i][j], f.x[i], f.w[j / 2][j % 2 * 2], f.w[j / 2][j % 2 * 2 + 1]);
}

// Says which part of the tile a warp owns, and where its lanes find it in shared memory.
template <class S>
struct WarpPlace {
  int row, column;
  uint32_t from_x, from_w;
  float* out;  // the warp's own eight rows on their way to memory

  __device__ __forceinline__ explicit WarpPlace(uint8_t* shared) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    row = warp / S::kWarpsAcross * S::kWarpRows, column = warp % S::kWarpsAcross * S::kWarpColumns;
    // Lane l gives row l % 8 of tile l / 8: in x the tiles go down first, in w along K first.
    const int row_x = lane % 16, row_w = lane % 8 + lane / 16 * 8;
    const uint32_t base = shared_address(shared);
    from_x = base + static_cast<uint32_t>((row + row_x) * 64 + swizzled(row_x, lane / 16));
    from_w = base + static_cast<uint32_t>((S::kRows + column + row_w) * 64 + swizzled(row_w, lane / 8 % 2));
    out = reinterpret_cast<float*>(shared + S::kStages * S::kStageBytes) + warp * 8 * S::kPitch;
  }
};

// Copies a whole stage at once.
template <class Copies>
__device__ __forceinline__ void copy_stage(Copies& copies, int slot) {
  copies.begin(slot);
  copies.part(0, 1);
  copies.end();
}

// Multiplies a block's tiles, one after the other. copies.begin(slot) begins the copies of the next stage, which
// after a tile's last stage is the next tile's first, copies.part(i, n) makes a part of them, and copies.end()
// ends them. finish(tile, sums) takes a tile's sums while copies are under way. With two buffers of fragments,
// those of the next 32 bytes of K are loaded while the tensor cores multiply; with one, another warp multiplies
// meanwhile. Copies::kSpread says whether a stage is then copied in as many parts as it has steps but one, or at
// once at its beginning.
template <class S, class Copies, class Finish>
__device__ __forceinline__ void walk_tiles(Copies& copies, const WarpPlace<S>& place, int stages, int tiles,
                                           Finish&& finish) {
  constexpr int kParts = Copies::kSpread ? S::kSteps - 1 : 1;
#pragma unroll 1
  for (int i = 0; i < S::kStages - 1; ++i) copy_stage(copies, i);
  Fragments<S> fragments[S::kBuffers];
  int slot = 0, free_slot = S::kStages - 1;
  const auto load = [&](Fragments<S>& to, int step) {
    const uint32_t offset = static_cast<uint32_t>(slot * S::kStageBytes);
    to.load(place.from_x + offset, place.from_w + offset, step);
  };
  const auto next_slot = [&] {
    free_slot = slot;
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
  };
  if constexpr (S::kBuffers == 2) {
    wait_copies<S::kStages - 2>();
    __syncthreads();
    load(fragments[0], 0);
  }
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    Sums<S> sums = {};
    for (int stage = 0; stage < stages; ++stage) {
      if constexpr (S::kBuffers == 1) {
        wait_copies<S::kStages - 2>();
        __syncthreads();
        copy_stage(copies, free_slot);
#pragma unroll
        for (int step = 0; step < S::kSteps; ++step) {
          load(fragments[0], step);
          multiply_all<S>(sums, fragments[0]);
        }
        next_slot();
      } else {
#pragma unroll
        for (int step = 0; step < S::kSteps; ++step) {
          if (step == S::kSteps - 1) {
            wait_copies<S::kStages - 2>();
            __syncthreads();
            next_slot();
          }
          load(fragments[(step + 1) % 2], (step + 1) % S::kSteps);
          if (step == 0) copies.begin(free_slot);
          if (step < kParts) copies.part(step, kParts);
          if (step == kParts - 1) copies.end();
          multiply_all<S>(sums, fragments[step % 2]);
        }
      }
    }
    finish(tile, sums);
  }
  wait_copies<0>();
}

// Writes eight rows of the warp's sums to its own piece of shared memory. `rows` is known only at run time,
// while the compiler must name registers. So there is a branch for each value, and the code after it exists
// once in the program and not eight times.
template <class S>
__device__ __forceinline__ void put_rows(const Sums<S>& sums, float* out, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* to = out + lane / 4 * S::kPitch + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < S::kWarpRows / 8; ++i)
    if (i == rows) {
#pragma unroll
      for (int j = 0; j < S::kWarpColumns / 8; ++j)
        *reinterpret_cast<float2*>(to + j * 8) = {static_cast<float>(sums[i / 2][j][i % 2 * 2]),
                                                  static_cast<float>(sums[i / 2][j][i % 2 * 2 + 1])};
    }
}

// Stores eight neighbouring values of a row: in packs where the row allows it, otherwise the `count` that it
// has.
template <class T>
__device__ __forceinline__ void read_eight(const T* from, float (&v)[8], int count, bool packs) {
  constexpr int kPack = device::kPack<T>;
  if (packs) {
#pragma unroll
    for (int c = 0; c < 8; c += kPack) {
      const auto part = load<T, kPack>(from + c);
#pragma unroll
      for (int e = 0; e < kPack; ++e) v[c + e] = part.get(e);
    }
  } else {
#pragma unroll
    for (int c = 0; c < 8; ++c) v[c] = c < count ? as_float(from[c]) : 0.0f;
  }
}
template <class T>
__device__ __forceinline__ void write_eight(T* to, const float (&v)[8], int count, bool packs) {
  constexpr int kPack = device::kPack<T>;
  if (packs) {
#pragma unroll
    for (int c = 0; c < 8; c += kPack) {
      float part[kPack];
#pragma unroll
      for (int e = 0; e < kPack; ++e) part[e] = v[c + e];
      store(to + c, part);
    }
  } else {
#pragma unroll
    for (int c = 0; c < 8; ++c)
      if (c < count) to[c] = from_float<T>(v[c]);
  }
}
__device__ __forceinline__ void read_shared(const float* from, float (&v)[8]) {
#pragma unroll
  for (int c = 0; c < 8; c += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + c);
    v[c] = four.x, v[c + 1] = four.y, v[c + 2] = four.z, v[c + 3] = four.w;
  }
}

}  // namespace tachy::device::tile
