// The step cache: a denoising step whose model output would hardly differ from the last one reuses it.
//
// Between the last two computed steps the output moved by |Δv| while the latents moved by |Δx| (L1 norms).
// For a later step whose latents have moved by |δx| since the last computed one, the output's relative change
// is predicted as (|Δv| / |Δx|) · |δx| / |v|; below the threshold the last output is taken again. The first
// two steps and the last are always computed. No table fitted to a model is needed. `tachyscope validate
// --level extreme` prints, frame by frame, what the cache costs in quality. (The idea of judging by the
// input's change is TeaCache's, arXiv 2411.19108; judging by the measured rate of change is EasyCache's,
// arXiv 2507.02860.)
//
// Products in 8 bits round two outputs apart, however little their inputs differ, by as much as the threshold:
// over one step such a rate measures the rounding. With `coarse` it is taken over two computed steps, which
// halves the rounding's share. It then lags by a step, and since the rate falls during a run, it errs on the
// side of computing. The first three steps are computed.
//
// On a GPU the norms are still the host's, over downloaded copies: latents are some megabytes, a step that is
// worth skipping takes longer than their way.
#pragma once

#include "nn/params.h"
#include "request/step_cache_config.h"

namespace tachy {

class StepCache {
 public:
  // Latents and (guided) velocity have this shape.
  StepCache(const StepCacheConfig& config, const Tensor& shape, nn::ParamStore& store);

  // Step `index` of `steps` starts from `latents`: fills
  // `velocity` and returns true when the last output will do.
  bool reuse(const Tensor& latents, int index, int steps, const Tensor& velocity) const;
  // After the model gave `velocity` for `latents`.
  void computed(const Tensor& latents, const Tensor& velocity);

  // Another network goes on: what the last one gave says nothing about it.
  void forget();

  // The tensors that a resumed run needs. All are zero at the start.
  std::vector<Tensor> state() const;

 private:
  struct Pair {  // what a computed step began with, and what the model gave
    Tensor latents, velocity;
  };

  std::vector<float> on_host(const Tensor& t) const;
  void copy(const Pair& from, const Pair& to) const;

  StepCacheConfig config_;
  Stream& stream_;
  Pair last_, earlier_;  // earlier_: the one before the last, held where coarse
  Tensor numbers_;       // its first values: computed steps (up to 3), |Δv| / |Δx|, |v|
};

}  // namespace tachy
