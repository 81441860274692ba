// Quantisation to 8 bits with one float32 scale per block, and back. It computes in float32 and rounds each
// step:
//   scale = max(amax / top, 2^-126)  with amax the largest |x| of the block; 1 for a block of zeros
//   q = round(clamp(x / scale, ±top)),  x' = q · scale
// top is 448 for e4m3, 57344 for e5m2, 127 for int8 (symmetric: −128 is not used). Rounding is to nearest,
// ties to even. Blocks cover the matrix from its first corner; the last ones may be smaller. A NaN or Inf in
// a block makes its scale NaN or Inf, so the whole block comes back as NaN and not as plausible numbers. In q
// itself NaN is 0x7f (0 in int8).
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

// The size of a block; 0 stands for the whole extent. {0, 0} gives one scale per tensor, {1, 0} one per row,
// {1, 128} one for each 128 values of a row, and {128, 128} one per square.
struct QuantBlock {
  int64_t rows = 0, columns = 0;
};

struct QuantizeArgs {
  Tensor x;  // [M, C] f32, f16 or bf16, rows may be strided
  QuantBlock block;
  bool given_scale = false;  // scale (positive) is read, not written; values too large for it saturate
  Tensor scale;              // [ceil(M / block rows), ceil(C / block columns)] f32, contiguous
  Tensor q;                  // [M, C] f8_e4m3, f8_e5m2 or i8, rows may be strided
};
void quantize(const QuantizeArgs& args, Stream& stream);

struct DequantizeArgs {
  Tensor q;  // [M, C] f8_e4m3, f8_e5m2 or i8, rows may be strided
  QuantBlock block;
  Tensor scale;  // as in QuantizeArgs
  Tensor y;      // [M, C] f32 (on the GPU also 16-bit), rows may be strided
};
void dequantize(const DequantizeArgs& args, Stream& stream);

}  // namespace tachy::ops
