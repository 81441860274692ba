// Backward of y = x + gate[row] · u (gate absent: y = x + u):
//   dx = dy,  du = gate[row] · dy,  dgate[r] = Σ dy · u  over the rows that use r
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct GatedResidualBackwardArgs {
  Tensor u;      // [M, C]; needed only for dgate
  Tensor gate;   // optional [R, C] f32 (f64 if dy is), rows may be strided; its gradient likewise
  Tensor row;    // optional [M] i32: each token's row of the table, 0 by default
  Tensor dy;     // [M, C] f32 or f64, y's dtype (on a GPU f32, f16 or bf16), rows may be strided
  Tensor dx;     // optional [M, C], dy's dtype, may alias dy; a caller that can pass on dy needs no dx
  Tensor du;     // optional [M, C], u's dtype (on a GPU dy's or another of the forward pass), may alias u
  Tensor dgate;  // optional [R, C], rows may be strided; needs gate and u
};

void gated_residual_backward(const GatedResidualBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
