#include "denoise/easy_cache.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

EasyCache::EasyCache(const StepCacheConfig& config, const Tensor& shape, int64_t branches,
                     nn::ParamStore& store)
    : threshold_(config.threshold), stream_(store.stream()) {
  const auto allocate = [&] { return store.allocate(DType::f32, shape.shape()); };
  before_ = allocate(), from_ = allocate(), numbers_ = allocate();
  for (int64_t b = 0; b < branches; ++b) outputs_.push_back(allocate());
  require(shape.numel() >= 3, "step cache: expected at least 3 latents, got {}", shape.numel());
}

std::vector<Tensor> EasyCache::state() const {
  std::vector<Tensor> all = {before_, from_, numbers_};
  all.insert(all.end(), outputs_.begin(), outputs_.end());
  return all;
}

void EasyCache::forget() { zero(numbers_, stream_); }

StepCache::Found EasyCache::reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) {
  if (stream_.measuring()) return Found::nothing;
  std::vector<float> numbers = values_on_host(numbers_, stream_);
  float& sum = numbers[2];
  bool reuses = false;
  if (at.in_part < kFirst || at.last) {
    sum = 0;
  } else if (numbers[0] >= 2) {
    const double moved = l1_distance(values_on_host(latents, stream_), values_on_host(before_, stream_));
    sum += static_cast<float>(numbers[1] * moved / l1_norm(values_on_host(outputs_[0], stream_)));
    reuses = sum < threshold_;
    if (!reuses) sum = 0;
  }
  upload(numbers.data(), numbers_, stream_);
  copy_bytes(latents, before_, stream_);
  if (!reuses) return Found::nothing;
  for (int64_t b = 0; b < velocity.dim(0); ++b) {
    // The difference is rounded before x is added, as where it is kept.
    const Tensor to = velocity.select(0, b);
    ops::LincombArgs change{.count = 2, .out = to}, moved{.count = 2, .out = to};
    change.terms[0] = {outputs_[static_cast<size_t>(b)], 1}, change.terms[1] = {from_, -1};
    moved.terms[0] = {latents, 1}, moved.terms[1] = {to, 1};
    ops::lincomb(change, stream_), ops::lincomb(moved, stream_);
  }
  return Found::velocities;
}

void EasyCache::computed(const StepPlace&, const Tensor& latents, const Tensor& velocity) {
  if (stream_.measuring()) return;
  std::vector<float> numbers = values_on_host(numbers_, stream_);
  if (numbers[0] > 0) {
    const double changed = l1_distance(values_on_host(velocity.select(0, 0), stream_),
                                       values_on_host(outputs_[0], stream_)),
                 moved = l1_distance(values_on_host(latents, stream_), values_on_host(from_, stream_));
    numbers[1] = moved > 0 ? static_cast<float>(changed / moved) : 0.0f;
  }
  numbers[0] = std::min(numbers[0] + 1, 2.0f);
  upload(numbers.data(), numbers_, stream_);
  copy_bytes(latents, from_, stream_);
  for (int64_t b = 0; b < velocity.dim(0); ++b)
    copy_bytes(velocity.select(0, b), outputs_[static_cast<size_t>(b)], stream_);
}

}  // namespace tachy
