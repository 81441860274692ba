// The noise generator of a run. A run has only one, as in PyTorch. It draws the starting noise first, then
// what stochastic samplers need.
//
// A video made block by block draws noise for every block, which takes a CPU milliseconds (half a million
// values for a block of Matrix-Game 2). Values of PyTorch's generator for the CPU are made on the GPU that
// needs them, once make_on() has named the place. For other generators, draw_ahead() makes them in another
// thread while the device is busy with the block before. The bits, and the state that save() returns, are the
// same as if all values were drawn one by one.
#pragma once

#include <cstring>
#include <deque>
#include <future>
#include <system_error>
#include <utility>
#include <variant>

#include "base/error.h"
#include "request/request.h"
#include "tensor/random.h"
#include "tensor/stream.h"

namespace tachy {

// Noise that somebody else drew, in the order in which it is used.
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

  // From here on fill() makes values on the GPU where `state` lies, i32 [cuda::kGeneratorWords], if the
  // generator allows it; with an undefined `state`, on the host again. No other source may use `state`, which
  // must live until this is called again.
  void make_on(const Tensor& state);
  // Queues the next values, wherever the stream computes.
  void fill(const Tensor& to, const Stream& stream);

  void draw(std::span<float> values) {
    const std::span<const float> drawn = next(values.size());
    std::copy(drawn.begin(), drawn.end(), values.begin());
  }
  // Returns the next n values, valid until the next call of any function here.
  std::span<const float> next(size_t n) {
    take_back();
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
  // Begins to make the values for the next calls of next() and fill(), in their order, and returns at once.
  // Does nothing if a GPU will make them.
  void draw_ahead(std::vector<size_t> counts) {
    settle();
    if (can_make_on_device()) return;
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
    } catch (const std::system_error&) {  // no thread is available, so next() draws
    }
  }
  // Returns torch.randperm(n) of the run's generator, or, if that is a GPU's, of one on the CPU with the same
  // seed.
  std::vector<int64_t> permutation(int64_t n) {
    take_back();
    check(ahead_.empty(), ErrorCode::internal, "noise: a permutation after values that were drawn ahead");
    if (auto* own = std::get_if<TorchCpuGenerator>(&generator_)) return own->permutation(n);
    return shuffles_.permutation(n);
  }
  std::vector<uint8_t> save() {
    settle();
    catch_up();
    if (!ahead_.empty()) return ahead_.front().before;
    return std::visit([](const auto& g) { return g.save(); }, generator_);
  }
  void restore(std::span<const uint8_t> bytes) {
    settle();
    ahead_.clear();
    behind_ = 0, on_device_ = false;
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
  // After this, no other thread uses the members. Throws what the drawing threw.
  void settle() {
    if (drawing_.valid()) drawing_.get();
  }

  bool can_make_on_device() const {
    return device_state_.defined() && std::holds_alternative<TorchCpuGenerator>(generator_);
  }
  // Moves the generator on the host past the values that the GPU made.
  void catch_up() {
    if (behind_ > 0) std::get<TorchCpuGenerator>(generator_).skip(std::exchange(behind_, 0));
  }
  // From here on the host makes the values again.
  void take_back() {
    settle();
    catch_up();
    on_device_ = false;
  }

  Generator generator_;
  Tensor device_state_;         // state of a generator on a GPU; undefined: none
  bool on_device_ = false;      // whether device_state_ is the state after all values that were drawn so far
  size_t behind_ = 0;           // values made on the GPU that generator_ does not count yet
  TorchCpuGenerator shuffles_;  // used only for the starting noise, so no saved state needs it
  Drawn current_;
  std::deque<Drawn> ahead_;
  std::vector<Drawn> spare_;   // kept for reuse: their memory takes the next values
  std::future<void> drawing_;  // last, so that it is destroyed before what it uses
};

}  // namespace tachy
