// Backward of LayerNorm, affine map and modulation:  n = (x − mean)·r,  a = n · weight + bias,
// y = a · (1 + scale[row]) + shift[row].  With s = dy · (1 + scale[row]) and g = s · weight
//   dx = r·(g − mean(g) − n·mean(g·n)),  dweight = Σ s·n,  dbias = Σ s  over all rows,
//   dscale[r] = Σ dy·a,  dshift[r] = Σ dy  over the rows that use r
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LayerNormModulateBackwardArgs {
  Tensor x;       // [M, C] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor weight;  // optional [C]; all have one dtype (on a GPU parameters and their gradients are f32)
  Tensor bias;    // optional [C]
  Tensor scale;   // optional [R, C], rows may be strided
  Tensor row;     // optional [M] i32: each token's row of the table, 0 by default
  Tensor dy;      // [M, C], rows may be strided
  float eps = 1e-6f;
  Tensor dx;       // [M, C], rows may be strided
  Tensor dweight;  // optional [C]
  Tensor dbias;    // optional [C]
  Tensor dscale;   // optional [R, C], rows may be strided; needs scale
  Tensor dshift;   // optional [R, C], rows may be strided; needs scale
};

void layernorm_modulate_backward(const LayerNormModulateBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
