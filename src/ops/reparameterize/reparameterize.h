// A draw from the VAE's posterior and, with `center` and `factor`, its conversion to the latents that a
// transformer reads, in one pass:
//   z = mean + exp(clamp(logvar, −30, 20) / 2) · noise;   z = (z − center[row]) · factor[row]
// The noise comes from the caller (tensor/random.h makes PyTorch's), so nothing here waits for anything. Rows
// are channels if the moments are stored channels first, [2z, T·H·W]: mean and logvar are then halves of one
// tensor.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

inline constexpr float kLowestLogvar = -30, kHighestLogvar = 20;

struct ReparameterizeArgs {
  Tensor mean;    // [M, P] f32, rows may be strided
  Tensor logvar;  // [M, P] f32, rows may be strided
  Tensor noise;   // [M, P] f32, rows may be strided
  Tensor center;  // optional [M] f32 (the config's latents_mean, once for each channel row)
  Tensor factor;  // optional [M] f32 (1 / latents_std); given together with center
  Tensor z;       // [M, P] f32, rows may be strided, may alias mean, logvar or noise
};

void reparameterize(const ReparameterizeArgs& args, Stream& stream);

}  // namespace tachy::ops
