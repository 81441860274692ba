// How many threads share a row of packs, and how many packs each of them holds in registers, for launching
// the row kernels (device/row_norm.cuh, qk_norm_rope). A warp or part of one shares a short row, so that no
// barrier is needed; up to 512 threads share a long one.
#pragma once

#include <cstdint>

#include "cuda/dispatch.h"

namespace tachy::cuda {

struct RowPlan {
  int width = 0, chunks = 0;  // chunks is 0 if the row is too long for registers
  int threads = 128;          // threads of a block
};

inline constexpr int kRowChunks[] = {1, 2, 3, 4, 5, 6, 8};

// Takes the narrowest group whose registers hold the row with few idle threads. Then it doubles the width
// while a thread has more packs than it should (`liked`: with more in flight, occupancy suffers), or while
// there are so few rows that the GPU is not full: then only the time of one row matters.
inline RowPlan plan_row(int64_t packs, int64_t rows, const Stream& stream, int liked = 6) {
  RowPlan best;
  double waste = 2;
  for (int width = 4; width <= 512; width *= 2) {
    const int64_t need = (packs + width - 1) / width;
    for (const int chunks : kRowChunks) {
      if (chunks < need) continue;
      const double idle = 1.0 - static_cast<double>(packs) / (static_cast<double>(width) * chunks);
      // A wider group is taken only if it wastes clearly less.
      if (idle < waste - 0.05) waste = idle, best = {width, chunks, width > 128 ? width : 128};
      break;
    }
  }
  const int64_t room = int64_t{stream.gpu->info().multiprocessors} * 1024;  // number of threads
  while (best.chunks && best.chunks % 2 == 0 && best.width >= 32 && best.width < 512 &&
         (best.chunks > liked || rows * best.width * 2 <= room))
    best.width *= 2, best.chunks /= 2, best.threads = std::max(best.threads, best.width);
  return best;
}

// The shape of a kernel in which a thread keeps its pack of columns and takes `ahead` neighbouring rows at
// once; blocks stride over the rows only if there are more than a grid can have.
struct ColumnShape {
  dim3 grid, block;
  ColumnShape(int64_t packs, int64_t rows, int ahead) {
    int64_t across = 32;  // threads along a row, with as few idle ones as possible
    double waste = 2;
    for (int64_t threads = 32; threads <= 256; threads += 32) {
      const double idle =
          static_cast<double>((packs + threads - 1) / threads * threads) / static_cast<double>(packs);
      if (idle <= waste) waste = idle, across = threads;
    }
    const int64_t down = std::max<int64_t>(1, 256 / across);
    const int64_t columns = (packs + across - 1) / across, bands = (rows + down * ahead - 1) / (down * ahead);
    block = dim3(static_cast<unsigned>(across), static_cast<unsigned>(down));
    grid = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(std::min<int64_t>(bands, 65535)));
  }
};

// Calls body.operator()<Chunks>() for the plan's chunks.
template <class Body>
void dispatch_chunks(int chunks, Body&& body) {
  switch (chunks) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    case 4:
      return body.template operator()<4>();
    case 5:
      return body.template operator()<5>();
    case 6:
      return body.template operator()<6>();
    default:
      return body.template operator()<8>();
  }
}

}  // namespace tachy::cuda
