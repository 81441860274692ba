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
// On a GPU the norms are still the host's, over downloaded copies: latents are some megabytes, a step that is
// worth skipping takes longer than their way.
#pragma once

#include "nn/params.h"

namespace tachy {

class StepCache {
 public:
  // threshold 0: off, holds nothing. Latents and (guided) velocity have this shape.
  StepCache(double threshold, const Tensor& shape, nn::ParamStore& store);

  // Step `index` of `steps` starts from `latents`: fills
  // `velocity` and returns true when the last output will do.
  bool reuse(const Tensor& latents, int index, int steps, const Tensor& velocity) const;
  // After the model gave `velocity` for `latents`.
  void computed(const Tensor& latents, const Tensor& velocity);

  // Another network goes on: what the last one gave says nothing about it.
  void forget();

  // What a resumed run needs: kStateTensors of the latents' shape, or none. All zero at the start.
  static constexpr int kStateTensors = 3;
  std::vector<Tensor> state() const;

 private:
  std::vector<float> on_host(const Tensor& t) const;

  double threshold_;
  Stream& stream_;
  Tensor latents_, velocity_;  // of the last computed step
  Tensor numbers_;             // its first values: computed steps (2 is enough), |Δv| / |Δx|, |v|
};

}  // namespace tachy
