// Products with weights packed as panels: C [rows, N] (+)= Σ_s X_s [rows, depth] · B_s [depth, N], the inner
// loop of linear layers, convolutions and attention.
//
// B is divided into panels of some vectors of columns, each stored k-major, so that a tile of C stays in
// registers while its panel and a few rows of X stream by. X needs no packing: rows of `depth` contiguous
// values, a fixed stride apart. Segments let a convolution sum over taps without leaving the registers: X_s
// is another pointer into the same pixels, and the panel continues where segment s - 1 ended.
//
//   f32:   panel [K][width] floats, 48 columns (with AVX-512 tiles of 8 x 48, with NEON of 6 x 12), Highway
//   bf16:  panel [K/2][width][2], pairs of k side by side: 32 columns; tiles of 32 x 32 (amx.h), else AVX-512 BF16,
//          on 64-bit Arm its bf16 instructions
//
// The last panel may be narrower, a multiple of 16 columns. The layout is the same on every instruction set.
//
// The sum of an element runs over k in order in every tile shape, so results depend neither on tiling nor on
// the number of threads.
#pragma once

#include <cstdint>
#include <optional>

#include "base/refusal.h"
#include "tensor/memory.h"
#include "tensor/precision.h"

namespace tachy::cpu {

// A whole panel has panel_columns columns. The depth of a segment must be a multiple of panel_depth_step, and
// panel_depth rounds a depth up to one.
int64_t panel_columns(Compute compute);
inline int64_t panel_depth_step(Compute compute) { return compute == Compute::bf16 ? 32 : 1; }
inline int64_t panel_depth(int64_t depth, Compute compute) {
  const int64_t step = panel_depth_step(compute);
  return (depth + step - 1) / step * step;
}
// Rows of X that may be read, and rows of C that may be written, beyond the last one, up to a multiple of
// this number.
inline int64_t panel_row_step(Compute compute) { return compute == Compute::bf16 ? 16 : 1; }
inline int64_t panel_rows(int64_t rows, Compute compute) {
  const int64_t step = panel_row_step(compute);
  return (rows + step - 1) / step * step;
}

// Returns nothing, or the reason why this CPU cannot multiply them.
std::optional<Refusal> panels_why_not(Compute compute);
const char* panels_name(Compute compute);  // "amx-bf16" …
// Whether bf16 panels run on tiles: AMX's, or their plain replacement (amx.h).
bool panels_on_tiles();
inline Compute usable(Compute wanted) { return panels_why_not(wanted) ? Compute::f32 : wanted; }

// The sizes of one matrix B [k, n], with k already a multiple of the depth step. A matrix takes a multiple
// of 256 bytes.
int64_t panels_count(int64_t n, Compute compute);
int64_t panels_bytes(int64_t k, int64_t n, Compute compute);
int64_t panel_width(int64_t n, int64_t panel, Compute compute);  // columns stored, including the padding
inline int64_t panel_k_bytes(int64_t width, int64_t k, Compute compute) {
  return width * k * (compute == Compute::bf16 ? 2 : 4);
}
// Offset of a panel, in bytes, in a matrix of depth k.
inline int64_t panel_offset(int64_t k, int64_t panel, Compute compute) {
  return panel_k_bytes(panel * panel_columns(compute), k, compute);
}

// Packs one panel of `width` columns: `count` rows of weights [count, k_given] from `rows` on (`stride`
// values apart, any float dtype). What lies beyond count and k_given, up to k, becomes zero.
inline constexpr int64_t kPanelPackScratch = 64 * 80 * 6;
void pack_panel(const void* rows, DType dtype, int64_t stride, int64_t count, int64_t k_given, int64_t k,
                int64_t width, Compute compute, void* to, void* scratch);
// Element [k, column] of a packed matrix of depth `depth`, for the definitions.
float panel_value(const void* packed, int64_t depth, int64_t n, int64_t k, int64_t column, Compute compute);

struct PanelProduct {
  const void* const* x;  // first row of each segment; f32 or bf16
  int64_t segments = 1;
  int64_t depth = 0;     // depth of a segment
  int64_t x_stride = 0;  // values between rows
  const void* panel = nullptr;
  int64_t width = 0;    // columns of the panel
  int64_t columns = 0;  // columns needed, or 0 for all: the other columns of C may keep their values
  // This many panels of that width, panel_step bytes apart, make neighbouring columns of C.
  int64_t panels = 1, panel_step = 0;
  int64_t rows = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool add = false;
};
void panel_product_f32(const PanelProduct& p);
void panel_product_bf16(const PanelProduct& p);
inline void panel_product(const PanelProduct& p, Compute compute) {
  compute == Compute::bf16 ? panel_product_bf16(p) : panel_product_f32(p);
}

// y[i, o] = c[i, o] + bias[o] + residual[i, o] over `rows` rows of n values; absent terms are null.
struct PanelFinish {
  const float* c;
  int64_t c_stride;
  const float* bias;
  const float* residual;
  float* y;
  int64_t y_stride;  // also the stride of residual
  int64_t rows, n;
};
void finish_panels(const PanelFinish& f);

// Rounds count floats to bf16, to nearest even; NaN stays NaN.
void narrow_bf16(const float* from, int64_t count, uint16_t* to);

}  // namespace tachy::cpu
