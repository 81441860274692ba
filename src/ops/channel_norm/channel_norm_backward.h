// Backward of the VAE's norm, y = act(n · gamma) with n = x·f, f = √C / max(‖x‖₂, 1e-12):
//   with s = dy · act'(n·gamma) and g = s · gamma:  dx = f·(g − n·mean(g·n)),  dgamma = Σ over positions of s·n
// At a position whose norm is below the clamp, f is a constant and dx = f·g.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ChannelNormBackwardArgs {
  Tensor x;      // [P, C] f32 or f64 (on a GPU f32, f16 or bf16), contiguous
  Tensor gamma;  // [C]; all tensors have one dtype (on a GPU parameters and their gradients are f32)
  bool silu = true;
  Tensor dy;      // [P, C], contiguous
  Tensor dx;      // [P, C], contiguous
  Tensor dgamma;  // optional [C]
};

void channel_norm_backward(const ChannelNormBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
