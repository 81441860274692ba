// TaylorSeer (Liu et al., arXiv 2503.06923) at the model's output, as diffusers' hooks have it in their lite mode:
// of `interval` steps one is computed, and the others continue each branch's output v as a line,
//   v(i) = v' + (i − i')·d,   d = (v' − v'') / (i' − i'')
// where v' and v'' are the outputs of the last two computed steps, i' and i''. The first three steps of a network
// are computed. In diffusers' own words the rule is: step i computes if i < 3 or (i − 4) mod interval = 0. (The
// published code keeps the results of every attention and feed-forward instead, which for Wan 2.1 14B at 480p are
// hundreds of gigabytes.)
#pragma once

#include "denoise/step_cache.h"

namespace tachy {

class TaylorCache : public StepCache {
 public:
  static constexpr int kFirst = 3;  // so many first steps are computed

  TaylorCache(const StepCacheConfig& config, const Tensor& shape, int64_t branches, nn::ParamStore& store);

  Found reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void computed(const StepPlace& at, const Tensor& latents, const Tensor& velocity) override;
  void forget() override;
  std::vector<Tensor> state() const override;

  static bool computes(int in_part, int interval) {
    return in_part < kFirst || (in_part - kFirst - 1) % interval == 0;
  }

 private:
  const int interval_;
  Stream& stream_;
  std::vector<Tensor> outputs_, slopes_;  // v' and d of each branch
  Tensor numbers_;  // its first values are the number of computed steps (up to 2), the last one's number
};

}  // namespace tachy
