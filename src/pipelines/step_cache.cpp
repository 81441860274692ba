#include "pipelines/step_cache.h"

#include <cmath>

#include "tensor/transfer.h"

namespace tachy {
namespace {

// Latents are small beside a step of the model: one thread, in order, so that every run decides alike.
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

StepCache::StepCache(double threshold, const Tensor& shape, nn::ParamStore& store)
    : threshold_(threshold), stream_(store.stream()) {
  if (threshold_ <= 0) return;
  latents_ = store.allocate(DType::f32, shape.shape());
  velocity_ = store.allocate(DType::f32, shape.shape());
  numbers_ = store.allocate(DType::f32, shape.shape());
  require(shape.numel() >= 3, "step cache: expected at least 3 latents, got {}", shape.numel());
}

std::vector<float> StepCache::on_host(const Tensor& t) const {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  download(t, values.data(), stream_);
  return values;
}

std::vector<Tensor> StepCache::state() const {
  return threshold_ > 0 ? std::vector<Tensor>{latents_, velocity_, numbers_} : std::vector<Tensor>{};
}

bool StepCache::reuse(const Tensor& latents, int index, int steps, const Tensor& velocity) const {
  if (threshold_ <= 0 || index + 1 == steps || stream_.measuring()) return false;
  const std::vector<float> numbers = on_host(numbers_);
  const double count = numbers[0], rate = numbers[1], size = numbers[2];
  if (count < 2 || rate * l1_distance(on_host(latents), on_host(latents_)) >= threshold_ * size) return false;
  copy_bytes(velocity_, velocity, stream_);
  return true;
}

void StepCache::forget() {
  if (threshold_ > 0) zero(numbers_, stream_);
}

void StepCache::computed(const Tensor& latents, const Tensor& velocity) {
  if (threshold_ <= 0 || stream_.measuring()) return;
  std::vector<float> numbers = on_host(numbers_);
  const bool earlier = numbers[0] > 0;
  const std::vector<float> output = on_host(velocity);
  const double moved = earlier ? l1_distance(on_host(latents), on_host(latents_)) : 0;
  numbers[1] = moved > 0 ? static_cast<float>(l1_distance(output, on_host(velocity_)) / moved) : 0.0f;
  numbers[2] = static_cast<float>(l1(output));
  numbers[0] = earlier ? 2.0f : 1.0f;
  upload(numbers.data(), numbers_, stream_);
  copy_bytes(latents, latents_, stream_), copy_bytes(velocity, velocity_, stream_);
}

}  // namespace tachy
