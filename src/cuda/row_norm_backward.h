// The backward pass of every norm over rows on the GPU. rmsnorm, layernorm_modulate, add_norm, channel_norm
// and qk_norm_rope fill in its arguments (device/row_norm_backward.cuh has the formulas).
#pragma once

#include "tensor/stream.h"

namespace tachy::cuda {

struct RowNormBackward {
  Tensor x, dy, dx;            // [M, C] or [B, L, C], rows may be strided
  Tensor dsum;                 // optional, like x
  Tensor weight, bias, scale;  // optional; f32, like all parameters and their gradients
  Tensor row;                  // optional [M] i32, with scale
  Tensor cos, sin;             // optional [L, D/2]
  Tensor dweight, dbias;       // optional [C]
  Tensor dscale, dshift;       // optional [R, C]
  int heads = 1;
  float eps = 0;
  bool centred = false, channel = false, silu = false;
};

void row_norm_backward(const char* op, const RowNormBackward& args, Stream& stream);

}  // namespace tachy::cuda
