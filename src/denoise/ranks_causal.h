// Makes a video block by block on several GPUs: each rank has a CausalDenoiser of its own, whose rings keep the keys
// and values of the rank's heads. A block's latents are made on the first rank, and each pass begins by giving them to
// the others. What the passes predict arrives at the first rank.
#pragma once

#include <memory>
#include <vector>

#include "denoise/causal_denoiser.h"

namespace tachy {

class RanksCausal final : public BlockDenoiser {
 public:
  RanksCausal(std::vector<std::unique_ptr<CausalDenoiser>> ranks, RunRanks run)
      : ranks_(std::move(ranks)), run_(std::move(run)) {}

  Tensor latents(int64_t frames) const override { return ranks_.front()->latents(frames); }
  void begin_block(int64_t frames, const WanScript& script) override;
  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void remember(const Tensor& latents) override;
  int64_t end() const override { return ranks_.front()->end(); }
  uint64_t bytes() const override { return ranks_.front()->bytes(); }

 private:
  // Calls pass(denoiser, latents) on each rank, with the latents on its device.
  template <class Pass>
  void on_each(const Tensor& latents, const Pass& pass);

  const std::vector<std::unique_ptr<CausalDenoiser>> ranks_;
  const RunRanks run_;
};

}  // namespace tachy
