// y[l, r] = table[l] + rows[r]: computes the modulation of every block of a transformer (each has a learned
// table) at every distinct timestep at once.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct AddRowsArgs {
  Tensor table;  // [L, C] f32
  Tensor rows;   // [R, C] f32
  Tensor y;      // [L, R, C] f32, contiguous
};

void add_rows(const AddRowsArgs& args, Stream& stream);

}  // namespace tachy::ops
