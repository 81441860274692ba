// The step cache of TeaCache and MagCache: a step computes the patches and the head, and takes what the blocks
// added to the tokens from the last step that ran them. The denoiser keeps that sum, for each branch, and knows
// the steps beforehand (block_schedule.h). It is far larger than the latents, so a saved state does not hold it:
// this class keeps the latents from which each branch's sum was made, and a resumed run makes it once more.
#pragma once

#include "denoise/step_cache.h"

namespace tachy {

class BlockCache : public StepCache {
 public:
  BlockCache(const Tensor& shape, int64_t branches, Denoiser& denoiser, nn::ParamStore& store);

  Found reuse(const StepPlace&, const Tensor&, const Tensor&) override { return Found::nothing; }
  void computed(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void forget() override {}
  void resumed(const StepPlace& at, const Tensor& velocity) override;
  std::vector<Tensor> state() const override { return latents_; }

 private:
  Denoiser& denoiser_;
  Stream& stream_;
  std::vector<Tensor> latents_;  // one for each branch
};

}  // namespace tachy
