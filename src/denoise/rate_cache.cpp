#include "denoise/rate_cache.h"

#include <algorithm>
#include <cmath>

#include "tensor/transfer.h"

namespace tachy {

RateCache::RateCache(const StepCacheConfig& config, const Tensor& shape, nn::ParamStore& store)
    : config_(config), stream_(store.stream()) {
  const auto allocate = [&] { return store.allocate(DType::f32, shape.shape()); };
  last_ = {allocate(), allocate()};
  if (config_.coarse) earlier_ = {allocate(), allocate()};
  numbers_ = allocate();
  require(shape.numel() >= 3, "step cache: expected at least 3 latents, got {}", shape.numel());
}

std::vector<Tensor> RateCache::state() const {
  std::vector<Tensor> all = {last_.latents, last_.velocity, numbers_};
  if (config_.coarse) all.push_back(earlier_.latents), all.push_back(earlier_.velocity);
  return all;
}

StepCache::Found RateCache::reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) {
  if (at.last || stream_.measuring()) return Found::nothing;
  const std::vector<float> numbers = on_host(numbers_);
  const double count = numbers[0], rate = numbers[1], size = numbers[2];
  if (count < (config_.coarse ? 3 : 2)) return Found::nothing;
  if (rate * l1_distance(on_host(latents), on_host(last_.latents)) >= config_.threshold * size)
    return Found::nothing;
  copy_bytes(last_.velocity, velocity.select(0, 0), stream_);
  return Found::prediction;
}

void RateCache::forget() { zero(numbers_, stream_); }

void RateCache::guided(const Tensor& latents, const Tensor& velocity) {
  if (stream_.measuring()) return;
  std::vector<float> numbers = on_host(numbers_);
  const Pair& from = config_.coarse && numbers[0] >= 2 ? earlier_ : last_;
  const std::vector<float> output = on_host(velocity);
  const double moved = numbers[0] > 0 ? l1_distance(on_host(latents), on_host(from.latents)) : 0;
  numbers[1] = moved > 0 ? static_cast<float>(l1_distance(output, on_host(from.velocity)) / moved) : 0.0f;
  numbers[2] = static_cast<float>(l1_norm(output));
  numbers[0] = std::min(numbers[0] + 1, 3.0f);
  upload(numbers.data(), numbers_, stream_);
  if (config_.coarse) copy(last_, earlier_);
  copy({latents, velocity}, last_);
}

void RateCache::copy(const Pair& from, const Pair& to) const {
  copy_bytes(from.latents, to.latents, stream_), copy_bytes(from.velocity, to.velocity, stream_);
}

}  // namespace tachy
