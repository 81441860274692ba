// The generator of a run: one, as in PyTorch. First the starting noise, then what stochastic samplers draw.
#pragma once

#include <variant>

#include "pipelines/request.h"
#include "tensor/random.h"

namespace tachy {

class NoiseSource {
 public:
  explicit NoiseSource(const VideoRequest& request) : generator_(make(request)) {}

  void draw(std::span<float> values) {
    std::visit([&](auto& g) { g.normal(values); }, generator_);
  }
  std::vector<uint8_t> save() const {
    return std::visit([](const auto& g) { return g.save(); }, generator_);
  }
  void restore(std::span<const uint8_t> bytes) {
    std::visit([&](auto& g) { g.restore(bytes); }, generator_);
  }

 private:
  using Generator = std::variant<TorchCpuGenerator, TorchCudaGenerator>;
  static Generator make(const VideoRequest& r) {
    if (r.rng == "cuda") return TorchCudaGenerator(r.seed, r.rng_multiprocessors);
    return TorchCpuGenerator(r.seed);
  }

  Generator generator_;
};

}  // namespace tachy
