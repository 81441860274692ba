// float32 products on AMX's bf16 tiles. A float32 value is exactly the sum of three bf16 values (8 digits
// each, truncated, not rounded), so x·b is the sum of nine products, of which the six largest are computed.
// The omitted ones are below 2^-21 of the product at worst, about 2^-25 on average. Six products at sixteen
// times the rate of a multiply-add are faster than float32's own units, with float32's error.
//
// A weight in bf16 is one value and one in f16 two, which makes three and five products.
#pragma once

#include <cstdint>

#include "tensor/memory.h"

namespace tachy::cpu {

// Whether bf16 is multiplied on tiles (amx.h): AMX-BF16, unless TACHY_BF16 forbids it, or its emulation.
bool has_split_tiles();

inline constexpr int kSplitPlanes = 3;
inline constexpr int64_t kSplitColumns = 16;  // columns of a block of B
inline int64_t split_depth(int64_t k) { return (k + 31) / 32 * 32; }
// The number of planes that values of this dtype need.
inline int split_planes(DType dtype) { return dtype == DType::f32 ? 3 : dtype == DType::f16 ? 2 : 1; }

// Splits count values into to[plane · plane_step + i], with zeros from count to padded (a multiple of 32).
void split_row(const float* from, int64_t count, int64_t padded, uint16_t* to, int64_t plane_step);

// Splits values of a float32 panel [k][width] (panels.h) into its blocks of 16 columns, each of which is
// [planes][depth / 2][16][2].
struct SplitPanel {
  const float* from;      // [count][width]
  int64_t count, padded;  // values of K given, and written with zeros at the end (a multiple of 2)
  int64_t width, depth;   // depth is that of a plane, which may be split one part at a time
  int planes;
  uint16_t* to;  // where the first pair of K goes in the first plane of the first block
};
void split_panel(const SplitPanel& p);
inline int64_t split_block_values(int64_t k, int planes) { return split_depth(k) * kSplitColumns * planes; }

struct SplitProduct {
  // The first row of the first plane, at the beginning of the block of K; up to a multiple of 16 rows may be
  // read.
  const uint16_t* x;
  int64_t x_stride, x_plane;
  const uint16_t* b;         // first block of columns, at the beginning of the block of K
  int64_t b_block, b_plane;  // distances in values: between blocks of columns, between planes
  int planes;                // planes of b
  int64_t rows, blocks, depth;
  float* c;  // up to a multiple of 16 rows may be written
  int64_t c_stride;
  bool add;
};
void split_product(const SplitProduct& p);

}  // namespace tachy::cpu
