// T5's relative position bias, y[h, q, k] = table[bucket[k − q + L − 1], h], depends on key − query only.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct PositionBiasArgs {
  Tensor table;   // [buckets, H] f32, contiguous
  Tensor bucket;  // [2L − 1] i32: the bucket of each distance from 1 − L to L − 1
  Tensor y;       // [H, L, L] f32, contiguous
};

void position_bias(const PositionBiasArgs& args, Stream& stream);

}  // namespace tachy::ops
