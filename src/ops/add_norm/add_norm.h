// The residual add and the norm that follows it, with the modulation of both, in one pass:
//   h = x + [gate[row] ·] u;   y = norm(h) [· weight] [+ bias] [· (1 + scale[row]) + shift[row]]
// norm is RMSNorm, h / sqrt(mean(h²) + eps), or LayerNorm, (h − mean) / sqrt(var + eps). The next residual
// add needs h: it is stored if `sum` is given, and it is normalised as a tensor of x's dtype would hold it.
// On the GPU x and sum are f32 or 16-bit, and so are u and y, which share one dtype. For a product in 8 bits
// y may be codes: y is rounded to u's dtype, and then each row is quantised as in ops/quantize.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

enum class NormKind { rms, layer };

struct AddNormArgs {
  Tensor x;     // [M, C] f32, rows may be strided
  Tensor u;     // [M, C] f32, rows may be strided
  Tensor gate;  // optional [R, C] f32, rows may be strided
  Tensor row;   // optional [M] i32: the row of gate, scale and shift for each token, 0 by default
  NormKind kind = NormKind::rms;
  Tensor weight;  // optional [C] f32; on a GPU it may also have the dtype of x and u if these are equal
  Tensor bias;    // optional [C], of weight's dtype
  Tensor scale;   // optional [R, C] f32, rows may be strided; given together with shift
  Tensor shift;   // optional [R, C] f32, rows may be strided
  float eps = 1e-6f;
  // RMSNorm: rounds to y's dtype before the weight as well; only without bias and modulation.
  bool round_twice = false;
  Tensor sum;  // optional [M, C] f32, rows may be strided, may alias x or u
  // [M, C] f32, rows may be strided, may alias x or u but not sum; or f8_e4m3, which aliases nothing.
  Tensor y;
  Tensor y_scale;  // [M] f32, contiguous; given if y holds codes, and only then
};

void add_norm(const AddNormArgs& args, Stream& stream);

}  // namespace tachy::ops
