// Previews: each latent pixel becomes one RGB pixel through a linear map that is fitted once per VAE
// (generation_config.json, preview_factors [z + 1, 3]; the last row is the offset). Without factors the first
// three channels are shown, scaled to their own range: enough to see where things are.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// Shows the frames side by side.
struct Preview {
  std::vector<uint8_t> rgb;
  int width = 0, height = 0;
};

// `denoised` is [z, T, h, w] f32, on the host.
Preview latent_preview(const Tensor& denoised, const std::vector<float>& factors);

}  // namespace tachy
