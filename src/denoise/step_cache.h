// A step cache: a denoising step takes what earlier steps have computed in place of a pass of the model. Each
// kind is a file:
//
//   rate_cache    the last guided output, while its predicted change is small
//   easy_cache    the last output, moved along with the latents (EasyCache)
//   taylor_cache  the last outputs, continued as a line (TaylorSeer at the model's output)
//   block_cache   what the transformer's blocks added the last time; patches and head are computed
//                 (TeaCache, MagCache; block_schedule.h says in which steps)
//
// A cache keeps the results of one network and, but for rate_cache, of one branch of guidance.
#pragma once

#include <memory>

#include "denoise/denoiser.h"
#include "nn/params.h"
#include "request/step_cache_config.h"

namespace tachy {

// A step's place in the run.
struct StepPlace {
  int step = 0;       // in the whole run
  int in_part = 0;    // among the steps of the network that predicts (Denoiser::part)
  bool last = false;  // of the whole run
};

class StepCache {
 public:
  // A step finds nothing, the guided prediction in the first branch, or all branches' velocities.
  enum class Found { nothing, prediction, velocities };

  virtual ~StepCache() = default;

  // Called before a step from `latents`. If the cache has what the step needs, it fills `velocity`
  // [branches, z, T, h, w].
  virtual Found reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) = 0;
  // Called when the model has computed `velocity` from `latents`, before guidance.
  virtual void computed(const StepPlace& at, const Tensor& latents, const Tensor& velocity) {
    (void)at, (void)latents, (void)velocity;
  }
  // Called after that, when `prediction` is the guided velocity.
  virtual void guided(const Tensor& latents, const Tensor& prediction) { (void)latents, (void)prediction; }
  // Called when another network takes over: nothing of what is kept applies to it.
  virtual void forget() = 0;
  // Called once in a resumed run whose next step is `at`, when state() has been restored.
  virtual void resumed(const StepPlace& at, const Tensor& velocity) { (void)at, (void)velocity; }

  // Returns the tensors that a resumed run needs, each of the latents' shape. All are zero at the start.
  virtual std::vector<Tensor> state() const = 0;
};

// Makes the cache of a run with up to `branches` branches, or null if it has none. Only block_cache uses
// `denoiser`.
std::unique_ptr<StepCache> make_step_cache(const StepCacheConfig& config, const Tensor& latents,
                                           int64_t branches, Denoiser& denoiser, nn::ParamStore& store);

// The L1 norm of x, and of x − y. Latents are small compared with the work of a step: one thread adds them in a
// fixed order, so that every run decides alike.
double l1_norm(std::span<const float> x);
double l1_distance(std::span<const float> x, std::span<const float> y);
std::vector<float> values_on_host(const Tensor& t, Stream& stream);

}  // namespace tachy
