// Two networks, each for its part of the steps: the high-noise expert for timesteps at or above a boundary,
// the low-noise one for those below it (Wan2.2 A14B). Timesteps fall, so a run changes over once, and only
// one expert is needed at a time: the second one is made when its first step comes, after the first one is
// gone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "denoise/denoiser.h"

namespace tachy {

class ExpertsDenoiser final : public Denoiser {
 public:
  // `make` loads what the expert `part` needs. `give_back` is called when its steps are done and its denoiser
  // is gone.
  using Make = std::function<std::unique_ptr<Denoiser>(int part)>;
  using GiveBack = std::function<void(int part)>;

  // part_of_step has 0 or 1 for each step. The expert of first_step is made at once.
  ExpertsDenoiser(std::vector<int> part_of_step, int first_step, Make make, GiveBack give_back);

  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void put_given(const Tensor& x) const override { current_->put_given(x); }
  int part(int step) const override { return part_of_step_.at(static_cast<size_t>(step)); }
  int kind(int step) const override { return current_->kind(step); }
  uint32_t reuses(int step) const override { return current_->reuses(step); }
  uint64_t bytes() const override { return current_->bytes(); }

 private:
  std::vector<int> part_of_step_;
  Make make_;
  GiveBack give_back_;
  int part_;
  std::unique_ptr<Denoiser> current_;
};

}  // namespace tachy
