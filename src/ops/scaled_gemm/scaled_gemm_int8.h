// int8 products on CPUs: the order in which weights are packed for them, and the tiles that read it.
//
// Weights are stored in blocks of 16 columns of y, each [K / 4][16][4], with four codes of one row of the
// weight side by side. VNNI and AMX multiply four codes at once; elsewhere they become two pairs of 16 bits.
// 64 values of K are 1 KB, one tile of AMX, and a kernel reads as many blocks in parallel as it has registers
// for. K is padded with zeros to a multiple of 64, columns to one of 16. After the blocks come −128·Σ_k
// weight[n, k] as int32: if x is used as x + 128, because one factor must be unsigned, sums begin with these.
// Every sum is exact (|Σ| <= 2^14·K), whatever the order.
#pragma once

#include <cstdint>
#include <optional>

#include "base/refusal.h"
#include "ops/activation_kind.h"
#include "tensor/tensor.h"

namespace tachy::ops::int8 {

inline constexpr int64_t kColumns = 16;  // columns of a block
// Tiles have a multiple of this many blocks: VNNI takes three at once, AMX two.
inline constexpr int64_t kBlockStep = 6;
inline constexpr int64_t kDepthStep = 64;
inline constexpr int64_t kRowStep = 16;  // rows of x that may be read, and of c written, beyond the last one
inline constexpr int64_t kMostDepth = 131071;  // with a larger K a sum might not fit into 32 bits

inline int64_t padded_to(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
inline int64_t blocks(int64_t n) { return (n + kColumns - 1) / kColumns; }
inline int64_t block_bytes(int64_t k) { return padded_to(k, kDepthStep) * kColumns; }
inline int64_t codes_bytes(int64_t n, int64_t k) { return blocks(n) * block_bytes(k); }
inline const int32_t* offset_sums(const Tensor& packed, int64_t n, int64_t k) {
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(packed.data) + codes_bytes(n, k));
}
// Writes the k codes of row `row` of a weight [N, k].
void unpack_row(const Tensor& packed, int64_t k, int64_t row, int8_t* to);

// C [rows, 16·blocks] = or += X [rows, depth] times some blocks, in int32.
struct Product {
  const void* x;     // made by Kernel::take_row
  int64_t x_stride;  // in values
  int64_t x_rows;    // the next product's part of x begins this many rows after x
  int64_t depth;     // a multiple of kDepthStep
  const int8_t* weight;
  int64_t block_step;  // in bytes, between blocks
  int64_t blocks, rows;
  int32_t* c;
  int64_t c_stride;
  bool more;             // the next product uses the following part of the weight in each block
  bool add;              // adds to what C holds; otherwise sums start from `begin`
  const int32_t* begin;  // [16·blocks]: where sums start, for kernels that read x + 128
};

struct Kernel {
  int64_t x_size;  // bytes per value of x
  // The largest numbers of rows, values of K and blocks of columns in a tile. A tile is read from the
  // second-level cache, except for the part along K that a product reads again and again, which stays in the
  // first. deep_rows is for rows with many parts of K; it is larger, since each tile reads its part of the
  // weight from memory.
  int64_t rows, deep_rows, depth, blocks;
  // Prepares one row of x, which has `count` codes; values beyond, up to `padded`, may be anything finite.
  void (*take_row)(const int8_t* from, int64_t count, int64_t padded, void* to);
  void (*product)(const Product& product);
};
std::optional<Refusal> why_not_vnni();
std::optional<Refusal> why_not_amx();
const Kernel& vnni();
const Kernel& amx();
const Kernel& simd();  // Highway: 16-bit pairs, on every CPU

// One row of y from its sums:
// y[i] = act(x_scale·weight_scale[i]·t[i] + bias[i] + addend[i]); absent terms are null.
struct FinishRow {
  const int32_t* t;
  float x_scale;
  const float *weight_scale, *bias, *addend;
  float* y;
  int64_t count;
  Activation act;
  bool past_caches;  // y is stored past the caches if it is aligned to vectors
};
void finish_row(const FinishRow& row);

}  // namespace tachy::ops::int8
