// The time embedding's sinusoid: s(t) = [cos(t·ω_0 …) ‖
// sin(t·ω_0 …)], ω_i = 10000^(−i/half), half = freq_dim/2.
#pragma once

#include <span>

#include "models/wan/wan_config.h"
#include "tensor/tensor.h"

namespace tachy {

// Fills out [R, freq_dim] f32 with one row per timestep.
void fill_sinusoid(std::span<const double> timesteps, Sinusoid kind, const Tensor& out);

}  // namespace tachy
