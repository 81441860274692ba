// Reads a plan: finds one of its stages, the bytes that this stage holds, and where its blocks lie.
#pragma once

#include <algorithm>
#include <string_view>

#include "request/request.h"

namespace tachy {

// The number of blocks of a stage's part that pass through the device's slots; whether parts stay loaded;
// whether the layers that make keys of the prompt stay on the GPU as well (nn/weight_form.h: otherwise they are
// `visiting`); and the number of ranks that share a denoising pass.
struct Placement {
  int64_t text = 0, denoise = 0;
  bool keeps = false;
  bool keys_stay = false;
  int64_t vae_latents = 1;  // latent frames of a clip that the VAE takes at a time
  // Those that an encode does: the first GPU has all rows of it, where several share those of a decode.
  int64_t encode_latents() const { return std::min<int64_t>(vae_latents, 2); }
  int ranks = 1;
};

const StagePlan& stage_plan(const VideoPlan& plan, std::string_view name);
Placement placement_of(const VideoPlan& plan);
uint64_t bytes_of(const VideoPlan& plan, const StagePlan& stage);  // for plans whose parts do not stay

}  // namespace tachy
