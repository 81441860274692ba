// A step cache of this engine's own: a denoising step whose model output would hardly differ from the last one
// reuses that output.
//
// Between the last two computed steps the output moved by |Δv| while the latents moved by |Δx| (L1 norms).
// For a later step whose latents have moved by |δx| since the last computed one, the output's relative change
// is predicted as (|Δv| / |Δx|) · |δx| / |v|; if it is below the threshold, the last output is used again.
// The first two steps and the last are always computed. No table fitted to a model is needed. `tachyscope
// validate --level extreme` prints, frame by frame, what the cache costs in quality. (Judging by the input's
// change is an idea of TeaCache, arXiv 2411.19108; judging by the measured rate of change is EasyCache's,
// arXiv 2507.02860.)
//
// Products in 8 bits round two outputs apart by as much as the threshold, however little their inputs differ:
// a rate over one step would measure the rounding. With `coarse` the rate is taken over two computed steps,
// which halves the rounding's share. It then lags by a step, and since the rate falls during a run, it errs
// on the side of computing. The first three steps are computed.
//
// On a GPU, too, the host computes the norms, from downloaded copies: latents have some megabytes, and a step
// worth skipping takes longer than copying them. What was downloaded is kept for the next steps, so that a step
// copies its latents and its output once: with all of them anew, a step of 81x480x832 cost 60 ms on an H200.
#pragma once

#include <array>

#include "denoise/step_cache.h"

namespace tachy {

class RateCache : public StepCache {
 public:
  // Latents and guided prediction have this shape.
  RateCache(const StepCacheConfig& config, const Tensor& shape, nn::ParamStore& store);

  Found reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void guided(const Tensor& latents, const Tensor& prediction) override;
  void forget() override;
  std::vector<Tensor> state() const override;

 private:
  using Numbers = std::array<float, 3>;  // the number of computed steps (up to 3), |Δv| / |Δx|, |v|
  struct OnHost {                        // a tensor's values, if they are known
    std::vector<float> values;
    bool known = false;
  };
  struct Pair {  // a computed step's input and the model's output
    Tensor latents, velocity;
    OnHost x = {}, v = {};
  };

  const std::vector<float>& fetch(const Tensor& from, OnHost& to) const;
  Numbers numbers() const;
  void copy(const Pair& from, const Pair& to) const;

  StepCacheConfig config_;
  Stream& stream_;
  Pair last_, earlier_;  // earlier_ is the computed step before the last one, kept only if coarse
  OnHost x_, v_;         // the present step's
  Tensor numbers_;       // its first values are the Numbers
};

}  // namespace tachy
