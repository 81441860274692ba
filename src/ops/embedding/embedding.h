// y[m] = table[ids[m]], widened to float32. An id outside the table gives an
// `invalid_argument` that names it.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct EmbeddingArgs {
  Tensor ids;    // [M] i64
  Tensor table;  // [V, C], any float dtype, contiguous
  Tensor y;      // [M, C] f32
};

void embedding(const EmbeddingArgs& args, Stream& stream);

}  // namespace tachy::ops
