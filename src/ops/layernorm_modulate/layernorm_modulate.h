// LayerNorm, then an affine map of the layer or a modulation that differs from token to token, or both:
//   n = (x − mean) / sqrt(var + eps) [· weight + bias];   y = n · (1 + scale[row]) + shift[row]
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct LayerNormModulateArgs {
  Tensor x;       // [M, C] f32, rows may be strided
  Tensor weight;  // optional [C] f32; on a GPU it may also have the dtype of x and y if these are equal
  Tensor bias;    // optional [C], of weight's dtype
  Tensor scale;   // optional [R, C] f32, rows may be strided; given together with shift
  Tensor shift;   // optional [R, C] f32, rows may be strided
  Tensor row;     // optional [M] i32: the row of scale and shift for each token, 0 by default
  float eps = 1e-6f;
  Tensor y;  // [M, C] f32, rows may be strided, may alias x
};

void layernorm_modulate(const LayerNormModulateArgs& args, Stream& stream);

}  // namespace tachy::ops
