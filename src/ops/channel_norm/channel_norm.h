// The VAE's norm, per position over channels, with its activation:
//   n = x · gamma·√C / max(‖x‖₂, 1e-12);  y = silu(n) or n.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ChannelNormArgs {
  Tensor x;      // [P, C] f32, contiguous
  Tensor gamma;  // [C] f32
  bool silu = true;
  Tensor y;  // [P, C] f32, contiguous, may alias x
};

void channel_norm(const ChannelNormArgs& args, Stream& stream);

}  // namespace tachy::ops
