// From noise to latents in the sampler's steps. The loop knows what all ways of predicting share: sampler,
// guidance, step cache, previews, resuming, stopping, progress. A prediction is a Denoiser's work
// (denoiser.h).
//
// Run with a measuring arena it computes nothing and counts: of the passes of each part and kind, which are
// alike, the second stands for those after it.
#pragma once

#include <vector>

#include "denoise/denoiser.h"
#include "denoise/finite_marks.h"
#include "denoise/noise_source.h"
#include "denoise/step_cache.h"
#include "request/guidance.h"
#include "samplers/sampler.h"

namespace tachy {

struct LoopInput {
  const Sampler* sampler = nullptr;
  std::vector<Branches> guidance;  // of each part (Denoiser::part)
  StepCacheConfig step_cache;
  Tensor latents;                                       // [z, T, h, w] f32: noise in, result out
  NoiseSource* noise = nullptr;                         // of the run; not needed to measure
  const VideoCallbacks* callbacks = nullptr;            // or null
  const std::vector<float>* preview_factors = nullptr;  // of latent_preview(); for previews
  int64_t window = 0, windows = 1;                      // which of several loops one after the other it is
  bool draws_go_on =
      false;  // the next one's noise counts what references draw and do not use (Sampler::always_draws)
  int64_t frames = 0;  // of the windows before it, and what it takes over from them: for the state
  Tensor motion = {};
  const RunState* resume = nullptr;  // go on after its steps; latents and generator have been restored
  int* reused = nullptr;             // counts the steps that the step cache saved
  BufferShelf* shelf = nullptr;      // whose Buffers its tensors lie in, if not its own
  // Where a step that is not finite is noted, for whoever reads it before the result is shown; null: each step is waited
  // for, and an error.
  const FiniteMarks* marks = nullptr;
};

class DenoiseLoop {
 public:
  DenoiseLoop(const LoopInput& in, Denoiser& denoiser, Stream& stream);

  void run();
  uint64_t bytes() const { return store_.bytes(); }

 private:
  void predict(int i, const Tensor& velocity);
  void step(int i);
  const Branches& guidance(int i) const { return in_.guidance.at(static_cast<size_t>(denoiser_.part(i))); }
  void expect_finite(int i, const Tensor& predicted);
  bool reuse(int i, const Tensor& prediction);
  void guide(const Branches& branches, const Tensor& velocity);
  void draw_noise(int i);
  void preview(int i, const Tensor& prediction);
  void update(int i, const Tensor& prediction);
  void report_state(int64_t finished);

  const LoopInput in_;
  const Sampler& sampler_;
  Denoiser& denoiser_;
  Stream& stream_;
  nn::ParamStore store_;
  Tensor velocity_;            // [branches, z, T, h, w]; after guidance, branch 0 holds the prediction
  Tensor noise_;               // of this step, for stochastic samplers
  std::vector<Tensor> state_;  // the sampler's
  StepCache cache_;
  std::vector<Tensor> kept_;  // what a resumed run needs: the sampler's and the step cache's tensors
};

}  // namespace tachy
