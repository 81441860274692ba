// The denoise stage: which Denoisers a model and a request call for, and the loop over them.
#pragma once

#include <functional>

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
  LoadedTransformers* transformers = nullptr;
  std::function<void(int part)> load;       // makes sure that this one is loaded: its steps begin
  std::function<void(int part)> give_back;  // its steps are done
  NoiseSource* noise = nullptr;             // of the run; needed for real only
  const VideoCallbacks* callbacks = nullptr;
  bool graphs = true;                // on a GPU: a step is captured once and replayed
  const RunState* resume = nullptr;  // go on after its steps; latents and generator have been restored
  int* reused = nullptr;             // counts the steps that the step cache saved
};

// Which of the model's transformers predicts at each step: 0; of two experts 0 for high noise, 1 for low.
std::vector<int> part_of_steps(const ModelBundle& model, const Schedule& schedule);

// Runs all steps. Returns the bytes held at the worst moment: of transformers, contexts, tables and the sampler's
// state.
uint64_t denoise(const DenoiseInput& in, Stream& stream);

}  // namespace tachy
