// y = x + gate[row] · u, the residual add of a modulated block. Without gate, y = x + u.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct GatedResidualArgs {
  Tensor x;     // [M, C] f32
  Tensor u;     // [M, C] f32
  Tensor gate;  // optional [R, C] f32, rows may be strided
  Tensor row;   // optional [M] i32: each token's row of the table, 0 by default
  Tensor y;     // [M, C] f32, may alias x or u
};

void gated_residual(const GatedResidualArgs& args, Stream& stream);

}  // namespace tachy::ops
