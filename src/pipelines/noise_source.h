// The generator of a run: one, as in PyTorch. First the starting noise, then what stochastic samplers draw.
#pragma once

#include <variant>

#include "pipelines/request.h"
#include "tensor/random.h"

namespace tachy {

class NoiseSource {
 public:
  explicit NoiseSource(const VideoRequest& request) : generator_(make(request)), shuffles_(request.seed) {}

  void draw(std::span<float> values) {
    std::visit([&](auto& g) { g.normal(values); }, generator_);
  }
  // torch.randperm(n) of the run's generator, or where that is of a GPU, of one on the CPU with the same seed.
  std::vector<int64_t> permutation(int64_t n) {
    if (auto* own = std::get_if<TorchCpuGenerator>(&generator_)) return own->permutation(n);
    return shuffles_.permutation(n);
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
  TorchCpuGenerator shuffles_;  // only of the starting noise, so that no saved state needs it
};

}  // namespace tachy
