// Backward of h = x + u, y = norm(h) [· weight] [+ bias]. h has two users, the norm and the next residual
// add, whose gradient is dsum:  with g = dy · weight
//   dx = du = r·(g − [mean(g)] − n·mean(g·n)) + dsum,  dweight = Σ dy·n,  dbias = Σ dy  over the rows
#pragma once

#include "ops/add_norm/add_norm.h"
#include "tensor/stream.h"

namespace tachy::ops {

struct AddNormBackwardArgs {
  Tensor sum;  // [M, C] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided;
               // h as the forward pass stored it
  NormKind kind = NormKind::rms;
  Tensor weight;  // optional [C]; all have one dtype (on a GPU parameters and their gradients are f32)
  float eps = 1e-6f;
  Tensor dy;       // [M, C], rows may be strided
  Tensor dsum;     // optional [M, C], rows may be strided
  Tensor dx;       // [M, C], rows may be strided: the gradient of x and of u
  Tensor dweight;  // optional [C]
  Tensor dbias;    // optional [C]
};

void add_norm_backward(const AddNormBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
