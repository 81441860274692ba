// The residual add and the norm that follows it, in one pass:
//   h = x + u;   y = norm(h) [· weight] [+ bias]
// norm is RMSNorm, h / sqrt(mean(h²) + eps), or LayerNorm, (h − mean) / sqrt(var + eps). h is what the next
// residual add needs: it is stored where `sum` is given.
#pragma once

#include "tensor/memory.h"

namespace tachy::ops {

enum class NormKind { rms, layer };

struct AddNormArgs {
  Tensor x;  // [M, C] f32, rows may be strided
  Tensor u;  // [M, C] f32, rows may be strided
  NormKind kind = NormKind::rms;
  Tensor weight;  // optional [C] f32
  Tensor bias;    // optional [C] f32
  float eps = 1e-6f;
  Tensor sum;  // optional [M, C] f32, rows may be strided, may alias x or u
  Tensor y;    // [M, C] f32, rows may be strided, may alias x or u, not sum
};

void add_norm(const AddNormArgs& args, Stream& stream);

}  // namespace tachy::ops
