// The plain runner executes an Update over std::vector<float>, one assignment after the other. State starts
// as NaN, so that a read before the first write shows.
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy::test {

using Latent = std::vector<float>;

class Runner {
 public:
  Runner(const SamplerConfig& config, Latent start) : sampler(config) {
    const Latent nothing(start.size(), std::numeric_limits<float>::quiet_NaN());
    tensors_.assign(static_cast<size_t>(3 + sampler.state_tensors()), nothing);
    tensors_[0] = std::move(start);
  }

  const Latent& latent() const { return tensors_[0]; }
  Latent& noise() { return tensors_[2]; }

  void step(int i, const Latent& prediction) {
    tensors_[1] = prediction;
    for (const Assignment& assignment : sampler.update(i)) {
      Latent& target = tensors_.at(static_cast<size_t>(assignment.target));
      for (size_t k = 0; k < target.size(); ++k) {
        float sum = 0;
        for (const Term& term : assignment.terms)
          sum += term.coefficient * tensors_.at(static_cast<size_t>(term.slot))[k];
        target[k] = sum;
      }
    }
  }

  Sampler sampler;

 private:
  std::vector<Latent> tensors_;  // by Slot
};

}  // namespace tachy::test
