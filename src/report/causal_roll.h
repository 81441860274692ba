// A whole rollout of a causal transformer over given noise, actions and context. The stage `rollout` and
// comparisons use it.
#pragma once

#include <vector>

#include "catalog/part_files.h"
#include "models/wan/branches/actions/script.h"
#include "models/wan/causal.h"
#include "samplers/sampler.h"
#include "session/single_run.h"

namespace tachy {

// The inputs, on the host as float32.
struct CausalInputs {
  Tensor noise;           // [z, T, h, w] for the frames that are made
  Tensor fresh;           // [steps - 1, z, T, h, w]: the noise added between steps; undefined with one step
  Tensor known;           // [z, n, h, w]: the first blocks' latents; may be undefined
  Tensor condition;       // [c, n + T, h, w], joined to the latents; undefined if the model has none
  Tensor text, image;     // [n, text_dim], [m, image_dim]; undefined if the model has none
  int64_t text_rows = 0;  // rows of the text with its padding
  WanScript script;       // for all pixel frames
  std::vector<int64_t> blocks;
  std::vector<double> timesteps;
  SamplerConfig sampler;
  WanWindow window;

  int64_t frames() const { return noise.dim(1); }  // number of frames that are made
  int64_t known_frames() const { return known.defined() ? known.dim(1) : 0; }
};

// Computes latents [z, T, h, w] and velocities (all passes' values, one after the other), on the host.
void roll_out(const TransformerFiles& files, const CausalInputs& inputs, bool pack_weights,
              const SingleRun& how, const Tensor& latents, float* velocities);

}  // namespace tachy
