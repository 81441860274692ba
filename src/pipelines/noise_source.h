// The generator of a run: one, as in PyTorch. First the starting noise, then what stochastic samplers draw.
//
// A video made block by block draws for every block, and PyTorch's generator on a CPU takes milliseconds for it (a third of a
// million values a step of Matrix-Game 2): draw_ahead() makes the next block's values in another thread while the device is
// busy with this block. Their bits, and the state that save() tells, are those of drawing them one by one.
#pragma once

#include <cstring>
#include <deque>
#include <future>
#include <system_error>
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
  NoiseSource(const NoiseSource&) = delete;
  NoiseSource& operator=(const NoiseSource&) = delete;

  void draw(std::span<float> values) {
    const std::span<const float> drawn = next(values.size());
    std::copy(drawn.begin(), drawn.end(), values.begin());
  }
  // The next n values, valid until the next call of anything here.
  std::span<const float> next(size_t n) {
    settle();
    if (ahead_.empty()) {
      current_.values.resize(n);
      std::visit([&](auto& g) { g.normal(std::span<float>(current_.values)); }, generator_);
      return current_.values;
    }
    check(ahead_.front().values.size() == n, ErrorCode::internal, "noise: {} values drawn ahead, {} wanted",
          ahead_.front().values.size(), n);
    std::swap(current_, ahead_.front());
    spare_.push_back(std::move(ahead_.front()));
    ahead_.pop_front();
    return current_.values;
  }
  // Begins to make what the calls of next() that come now will want, in their order. Returns at once.
  void draw_ahead(std::vector<size_t> counts) {
    settle();
    check(ahead_.empty(), ErrorCode::internal, "noise: values were drawn ahead and not used");
    const auto draw = [this, counts = std::move(counts)] {
      for (const size_t n : counts) {
        Drawn drawn;
        if (!spare_.empty()) drawn = std::move(spare_.back()), spare_.pop_back();
        drawn.before = std::visit([](const auto& g) { return g.save(); }, generator_);
        drawn.values.resize(n);
        std::visit([&](auto& g) { g.normal(std::span<float>(drawn.values)); }, generator_);
        ahead_.push_back(std::move(drawn));
      }
    };
    try {
      drawing_ = std::async(std::launch::async, draw);
    } catch (const std::system_error&) {  // no thread is to be had: next() draws
    }
  }
  // torch.randperm(n) of the run's generator, or where that is of a GPU, of one on the CPU with the same seed.
  std::vector<int64_t> permutation(int64_t n) {
    settle();
    check(ahead_.empty(), ErrorCode::internal, "noise: a permutation after values that were drawn ahead");
    if (auto* own = std::get_if<TorchCpuGenerator>(&generator_)) return own->permutation(n);
    return shuffles_.permutation(n);
  }
  std::vector<uint8_t> save() {
    settle();
    if (!ahead_.empty()) return ahead_.front().before;
    return std::visit([](const auto& g) { return g.save(); }, generator_);
  }
  void restore(std::span<const uint8_t> bytes) {
    settle();
    ahead_.clear();
    std::visit([&](auto& g) { g.restore(bytes); }, generator_);
  }

 private:
  using Generator = std::variant<TorchCpuGenerator, TorchCudaGenerator, ImportedNoise>;
  static Generator make(const VideoRequest& r) {
    if (r.rng == "cuda") return TorchCudaGenerator(r.seed, r.rng_multiprocessors);
    return TorchCpuGenerator(r.seed);
  }

  struct Drawn {
    std::vector<float> values;
    std::vector<uint8_t> before;  // the generator's state
  };
  // From here on nobody else is at the members. Throws what the drawing threw.
  void settle() {
    if (drawing_.valid()) drawing_.get();
  }

  Generator generator_;
  TorchCpuGenerator shuffles_;  // only of the starting noise, so that no saved state needs it
  Drawn current_;
  std::deque<Drawn> ahead_;
  std::vector<Drawn> spare_;   // whose memory the next ones take
  std::future<void> drawing_;  // last, so that it ends before what it uses
};

}  // namespace tachy
