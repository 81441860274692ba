// The residual add and the norm that follows it, with the modulation of both, in one pass:
//   h = x + [gate[row] ·] u;   y = norm(h) [· weight] [+ bias] [· (1 + scale[row]) + shift[row]]
// norm is RMSNorm, h / sqrt(mean(h²) + eps), or LayerNorm, (h − mean) / sqrt(var + eps). h is what the next
// residual add needs: it is stored where `sum` is given, and what is
// normalised is h as a tensor of x's dtype holds it. On the GPU x and sum are f32 or 16-bit, u and y alike.
// For a product in 8 bits y may be codes: y as a tensor of u's dtype holds it, then as ops/quantize rounds a row.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

enum class NormKind { rms, layer };

struct AddNormArgs {
  Tensor x;     // [M, C] f32, rows may be strided
  Tensor u;     // [M, C] f32, rows may be strided
  Tensor gate;  // optional [R, C] f32, rows may be strided
  Tensor row;   // optional [M] i32: the row of gate, scale and shift for each token; absent: row 0
  NormKind kind = NormKind::rms;
  Tensor weight;  // optional [C] f32; on a GPU also of a dtype that x and u share,
  Tensor bias;    // optional [C]      and both of one
  Tensor scale;   // optional [R, C] f32, rows may be strided; given together with shift
  Tensor shift;   // optional [R, C] f32, rows may be strided
  float eps = 1e-6f;
  bool round_twice = false;  // RMSNorm: also before the weight, to y's dtype; without bias and modulation
  Tensor sum;                // optional [M, C] f32, rows may be strided, may alias x or u
  Tensor y;                  // [M, C] f32, rows may be strided, may alias x or u, not sum; or f8_e4m3, apart
  Tensor y_scale;            // [M] f32, contiguous: written with codes, otherwise undefined
};

void add_norm(const AddNormArgs& args, Stream& stream);

}  // namespace tachy::ops
