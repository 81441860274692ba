#include "denoise/step_cache.h"

#include <algorithm>
#include <cmath>

#include "tensor/transfer.h"

namespace tachy {
namespace {

// Latents are small compared with the work of a step: one thread adds them in order, so that every run
// decides alike.
double l1(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += std::abs(v);
  return sum;
}

double l1_distance(const std::vector<float>& x, const std::vector<float>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::abs(static_cast<double>(x[i]) - y[i]);
  return sum;
}

}  // namespace

StepCache::StepCache(const StepCacheConfig& config, const Tensor& shape, nn::ParamStore& store)
    : config_(config), stream_(store.stream()) {
  if (config_.threshold <= 0) return;
  const auto allocate = [&] { return store.allocate(DType::f32, shape.shape()); };
  last_ = {allocate(), allocate()};
  if (config_.coarse) earlier_ = {allocate(), allocate()};
  numbers_ = allocate();
  require(shape.numel() >= 3, "step cache: expected at least 3 latents, got {}", shape.numel());
}

std::vector<float> StepCache::on_host(const Tensor& t) const {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  download(t, values.data(), stream_);
  return values;
}

std::vector<Tensor> StepCache::state() const {
  if (config_.threshold <= 0) return {};
  std::vector<Tensor> all = {last_.latents, last_.velocity, numbers_};
  if (config_.coarse) all.push_back(earlier_.latents), all.push_back(earlier_.velocity);
  return all;
}

bool StepCache::reuse(const Tensor& latents, int index, int steps, const Tensor& velocity) const {
  if (config_.threshold <= 0 || index + 1 == steps || stream_.measuring()) return false;
  const std::vector<float> numbers = on_host(numbers_);
  const double count = numbers[0], rate = numbers[1], size = numbers[2];
  if (count < (config_.coarse ? 3 : 2)) return false;
  if (rate * l1_distance(on_host(latents), on_host(last_.latents)) >= config_.threshold * size) return false;
  copy_bytes(last_.velocity, velocity, stream_);
  return true;
}

void StepCache::forget() {
  if (config_.threshold > 0) zero(numbers_, stream_);
}

void StepCache::computed(const Tensor& latents, const Tensor& velocity) {
  if (config_.threshold <= 0 || stream_.measuring()) return;
  std::vector<float> numbers = on_host(numbers_);
  const Pair& from = config_.coarse && numbers[0] >= 2 ? earlier_ : last_;
  const std::vector<float> output = on_host(velocity);
  const double moved = numbers[0] > 0 ? l1_distance(on_host(latents), on_host(from.latents)) : 0;
  numbers[1] = moved > 0 ? static_cast<float>(l1_distance(output, on_host(from.velocity)) / moved) : 0.0f;
  numbers[2] = static_cast<float>(l1(output));
  numbers[0] = std::min(numbers[0] + 1, 3.0f);
  upload(numbers.data(), numbers_, stream_);
  if (config_.coarse) copy(last_, earlier_);
  copy({latents, velocity}, last_);
}

void StepCache::copy(const Pair& from, const Pair& to) const {
  copy_bytes(from.latents, to.latents, stream_), copy_bytes(from.velocity, to.velocity, stream_);
}

}  // namespace tachy
