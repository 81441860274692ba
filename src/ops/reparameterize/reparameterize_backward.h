// Backward of z = (mean + σ·noise − center)·factor, σ = exp(clamp(logvar, −30, 20)/2):
//   dmean = dz·factor,  dlogvar = dz·factor·noise·σ/2 inside the clamp (its ends included), 0 outside
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ReparameterizeBackwardArgs {
  Tensor logvar;   // [M, P] f32 or f64 (on a GPU f32, f16 or bf16), rows may be strided
  Tensor noise;    // [M, P]; all tensors have one dtype
  Tensor factor;   // optional [M], f32 on a GPU
  Tensor dz;       // [M, P], rows may be strided
  Tensor dmean;    // [M, P], rows may be strided
  Tensor dlogvar;  // [M, P], rows may be strided
};

void reparameterize_backward(const ReparameterizeBackwardArgs& args, Stream& stream);

}  // namespace tachy::ops
