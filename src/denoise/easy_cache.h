// EasyCache (Zhou et al., arXiv 2507.02860): a step reuses the model's last output v of every branch, moved along
// with the latents,
//   v_b(x) = x + (v_b(x') − x')            x': the latents of the last computed step
// The first branch decides for all. Between the last two computed steps its output moved by |Δv| while the
// latents moved by |Δx| (L1 norms): k = |Δv| / |Δx|. Each step adds the change that k predicts,
//   e += k · |x − x of the step before| / |v|,
// and reuses while e < threshold; a step that computes begins again with e = 0. The first ten steps of a
// network and the last one of the run are computed, as in the published code for Wan.
#pragma once

#include "denoise/step_cache.h"

namespace tachy {

class EasyCache : public StepCache {
 public:
  static constexpr int kFirst = 10;  // so many first steps are computed

  EasyCache(const StepCacheConfig& config, const Tensor& shape, int64_t branches, nn::ParamStore& store);

  Found reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void computed(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void forget() override;
  std::vector<Tensor> state() const override;

 private:
  const double threshold_;
  Stream& stream_;
  Tensor before_;                // the latents of the step before
  Tensor from_;                  // the latents of the last computed step
  std::vector<Tensor> outputs_;  // what it gave for each branch
  Tensor numbers_;               // its first values are the number of computed steps (up to 2), k, e
};

}  // namespace tachy
