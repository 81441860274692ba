// The VAE's norm over the channels of each position, with its activation:
//   n = x · gamma·√C / max(‖x‖₂, 1e-12);  y = silu(n) or n.
// For a layer in 8 bits y may be codes: y / y_scale rounded to e4m3 or int8, where values beyond the largest
// code (±448, ±127) become that one. No value of y is larger than √C · max |gamma|, so with a 448th or a 127th
// of that as the scale none is clipped.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ChannelNormArgs {
  Tensor x;      // [P, C] f32, contiguous
  Tensor gamma;  // [C] f32
  bool silu = true;
  Tensor y;           // [P, C] f32, contiguous, may alias x; or f8_e4m3 or i8
  float y_scale = 1;  // scale of codes
};

void channel_norm(const ChannelNormArgs& args, Stream& stream);

}  // namespace tachy::ops
