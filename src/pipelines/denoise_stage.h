// The denoise stage: which Denoiser a model and a request call for, and the loop over it.
#pragma once

#include "pipelines/denoise_loop.h"
#include "pipelines/stages.h"

namespace tachy {

struct DenoiseInput {
  const ModelBundle* model = nullptr;
  const ResolvedRequest* request = nullptr;
  const Sampler* sampler = nullptr;
  Tensor text, negative;           // [n, text_dim]; negative undefined without guidance
  Tensor latents;                  // [z, T, h, w] f32: noise in, result out
  Tensor condition, image_embeds;  // of condition.h, or undefined
  NoiseSource* noise = nullptr;    // of the run; needed for real only
  const VideoCallbacks* callbacks = nullptr;
  bool graphs = true;                // on a GPU: a step is captured once and replayed
  const RunState* resume = nullptr;  // go on after its steps; latents and generator have been restored
  int* reused = nullptr;             // counts the steps that the step cache saved
};

// Runs all steps. Contexts, tables and sampler state go into stores of its own; returns their bytes.
uint64_t denoise(const WanDit& network, const DenoiseInput& in, Stream& stream);

}  // namespace tachy
