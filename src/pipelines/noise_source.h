// The generator of a run: one, as in PyTorch. First the starting noise, then what stochastic samplers draw.
#pragma once

#include <cstring>
#include <variant>

#include "base/error.h"
#include "pipelines/request.h"
#include "tensor/random.h"

namespace tachy {

// Noise that somebody else drew, in the order of its use.
class ImportedNoise {
 public:
  explicit ImportedNoise(std::vector<float> values) : values_(std::move(values)) {}
  void normal(std::span<float> to) {
    require(to.size() <= values_.size() - used_, "noise: {} values are given, expected at least {}",
            values_.size(), used_ + to.size());
    std::copy_n(values_.begin() + static_cast<ptrdiff_t>(used_), to.size(), to.begin());
    used_ += to.size();
  }
  std::vector<uint8_t> save() const {
    std::vector<uint8_t> bytes(sizeof used_);
    std::memcpy(bytes.data(), &used_, bytes.size());
    return bytes;
  }
  void restore(std::span<const uint8_t> bytes) {
    uint64_t used = 0;
    require(bytes.size() == sizeof used, "noise: expected a state of {} bytes, got {}", sizeof used,
            bytes.size());
    std::memcpy(&used, bytes.data(), sizeof used);
    require(used <= values_.size(), "noise: {} values are given, the state is past them", values_.size());
    used_ = used;
  }

 private:
  std::vector<float> values_;
  uint64_t used_ = 0;
};

class NoiseSource {
 public:
  explicit NoiseSource(std::vector<float> imported)
      : generator_(ImportedNoise(std::move(imported))), shuffles_(0) {}
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
  using Generator = std::variant<TorchCpuGenerator, TorchCudaGenerator, ImportedNoise>;
  static Generator make(const VideoRequest& r) {
    if (r.rng == "cuda") return TorchCudaGenerator(r.seed, r.rng_multiprocessors);
    return TorchCpuGenerator(r.seed);
  }

  Generator generator_;
  TorchCpuGenerator shuffles_;  // only of the starting noise, so that no saved state needs it
};

}  // namespace tachy
