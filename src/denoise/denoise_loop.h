// Turns noise into latents in the sampler's steps. The loop handles what all ways of predicting share:
// sampler, guidance, step cache, previews, resuming, stopping, progress. Predicting is a Denoiser's work
// (denoiser.h).
//
// With a measuring arena it computes nothing and counts. Passes of one part and kind are alike, so the second
// one stands for those after it.
#pragma once

#include <vector>

#include "denoise/denoiser.h"
#include "denoise/finite_marks.h"
#include "denoise/kept_part.h"
#include "denoise/noise_source.h"
#include "denoise/step_cache.h"
#include "request/guidance.h"
#include "samplers/sampler.h"

namespace tachy {

struct LoopInput {
  const Sampler* sampler = nullptr;
  std::vector<Branches> guidance;  // one for each part (Denoiser::part)
  StepCacheConfig step_cache;
  Tensor latents;                                       // [z, T, h, w] f32: noise in, result out
  NoiseSource* noise = nullptr;                         // that of the run; not needed to measure
  const VideoCallbacks* callbacks = nullptr;            // or null
  const std::vector<float>* preview_factors = nullptr;  // for latent_preview()
  int64_t window = 0, windows = 1;                      // the number of this loop among several successive
                                                        // ones
  // Whether the noise of the next window depends on what references draw and do not use
  // (Sampler::always_draws).
  bool draws_go_on = false;
  // For the state of a run: the number of frames in the windows before this one, and the latents that it
  // takes over from them.
  int64_t frames = 0;
  Tensor motion = {};
  // The state after whose steps the run goes on; latents and generator have been restored from it.
  const RunState* resume = nullptr;
  int* reused = nullptr;           // counts the steps that the step cache saved
  const KeptPart* kept = nullptr;  // the part of a given video that is not made anew; null: all is
  BufferShelf* shelf = nullptr;    // provides the Buffers of its tensors; null: a shelf of its own
  // Marks in which a step that is not finite is noted, for whoever reads them before the result is shown;
  // null: each step is waited for, and one that is not finite is an error.
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
  StepPlace place(int i) const;
  Tensor velocity_of(int i) const {  // the branches of this step
    return velocity_.slice(0, 0, static_cast<int64_t>(guidance(i).size()));
  }
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
  Tensor velocity_;                   // [branches, z, T, h, w]; after guidance, branch 0 holds the prediction
  Tensor noise_;                      // this step's noise, for stochastic samplers
  std::vector<Tensor> state_;         // the sampler's tensors
  std::unique_ptr<StepCache> cache_;  // null if the run has none
  std::vector<Tensor> kept_;          // what a resumed run needs: tensors of the sampler and the step cache
  std::vector<std::vector<float>> host_;  // copies for a view of the state, of tensors that lie on a GPU
};

}  // namespace tachy
