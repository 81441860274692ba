#include "pipelines/step_cache.h"

#include <array>
#include <cmath>
#include <cstring>

namespace tachy {
namespace {

// Latents are small beside a step of the model: one thread, in order, so that every run decides alike.
double l1(const Tensor& a) {
  const float* x = a.as<float>();
  double sum = 0;
  for (int64_t i = 0, n = a.numel(); i < n; ++i) sum += std::abs(x[i]);
  return sum;
}

double l1_distance(const Tensor& a, const Tensor& b) {
  const float *x = a.as<float>(), *y = b.as<float>();
  double sum = 0;
  for (int64_t i = 0, n = a.numel(); i < n; ++i) sum += std::abs(static_cast<double>(x[i]) - y[i]);
  return sum;
}

void keep(const Tensor& from, const Tensor& to) {
  std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
}

}  // namespace

StepCache::StepCache(double threshold, const Tensor& shape, nn::ParamStore& store) : threshold_(threshold) {
  if (threshold_ <= 0) return;
  check(!store.on_gpu(), ErrorCode::unsupported, "step cache: it runs on the CPU only so far");
  latents_ = store.allocate(DType::f32, shape.shape());
  velocity_ = store.allocate(DType::f32, shape.shape());
  numbers_ = store.allocate(DType::f32, shape.shape());
  require(shape.numel() >= 3, "step cache: expected at least 3 latents, got {}", shape.numel());
}

std::vector<Tensor> StepCache::state() const {
  return threshold_ > 0 ? std::vector<Tensor>{latents_, velocity_, numbers_} : std::vector<Tensor>{};
}

bool StepCache::reuse(const Tensor& latents, int index, int steps, const Tensor& velocity) const {
  if (threshold_ <= 0 || index + 1 == steps) return false;
  const auto [count, rate, size] =
      std::array<double, 3>{numbers_.as<float>()[0], numbers_.as<float>()[1], numbers_.as<float>()[2]};
  if (count < 2 || rate * l1_distance(latents, latents_) >= threshold_ * size) return false;
  keep(velocity_, velocity);
  return true;
}

void StepCache::computed(const Tensor& latents, const Tensor& velocity) {
  if (threshold_ <= 0) return;
  float* numbers = numbers_.as<float>();
  const bool earlier = numbers[0] > 0;
  const double moved = earlier ? l1_distance(latents, latents_) : 0;
  numbers[1] = moved > 0 ? static_cast<float>(l1_distance(velocity, velocity_) / moved) : 0.0f;
  numbers[2] = static_cast<float>(l1(velocity));
  numbers[0] = earlier ? 2.0f : 1.0f;
  keep(latents, latents_), keep(velocity, velocity_);
}

}  // namespace tachy
