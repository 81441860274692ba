// The format in which the convolutions of the VAE's residual blocks multiply (`vae_math`). It is the
// activations' format ("auto" means this one, too), or e4m3 or int8 (models/wan_vae/codes_block.cpp), which no
// level chooses and `math` does not turn on.
#pragma once

#include <string_view>

#include "cuda/gpu.h"
#include "models/wan_vae/vae_config.h"
#include "tensor/precision.h"

namespace tachy {

// Returns the products of this VAE in this precision. Throws invalid_argument for an unknown word or if the
// precision does not allow it, and unsupported if the VAE or the GPU has no convolution for it. `gpu` is null
// on the CPU.
Products vae_products(std::string_view vae_math, const VaeConfig& config, const Precision& precision,
                      cuda::Gpu* gpu);

}  // namespace tachy
