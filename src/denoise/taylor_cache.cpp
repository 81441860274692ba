#include "denoise/taylor_cache.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

TaylorCache::TaylorCache(const StepCacheConfig& config, const Tensor& shape, int64_t branches,
                         nn::ParamStore& store)
    : interval_(config.interval()), stream_(store.stream()) {
  const auto allocate = [&] { return store.allocate(DType::f32, shape.shape()); };
  numbers_ = allocate();
  for (int64_t b = 0; b < branches; ++b) outputs_.push_back(allocate()), slopes_.push_back(allocate());
  require(shape.numel() >= 2, "step cache: expected at least 2 latents, got {}", shape.numel());
}

std::vector<Tensor> TaylorCache::state() const {
  std::vector<Tensor> all = {numbers_};
  all.insert(all.end(), outputs_.begin(), outputs_.end());
  all.insert(all.end(), slopes_.begin(), slopes_.end());
  return all;
}

void TaylorCache::forget() { zero(numbers_, stream_); }

StepCache::Found TaylorCache::reuse(const StepPlace& at, const Tensor&, const Tensor& velocity) {
  if (stream_.measuring() || computes(at.in_part, interval_)) return Found::nothing;
  const std::vector<float> numbers = values_on_host(numbers_, stream_);
  const float distance = static_cast<float>(at.in_part) - numbers[1];
  for (int64_t b = 0; b < velocity.dim(0); ++b) {
    const auto at_b = static_cast<size_t>(b);
    ops::LincombArgs line{.count = 2, .out = velocity.select(0, b)};
    line.terms[0] = {outputs_[at_b], 1}, line.terms[1] = {slopes_[at_b], distance};
    ops::lincomb(line, stream_);
  }
  return Found::velocities;
}

void TaylorCache::computed(const StepPlace& at, const Tensor&, const Tensor& velocity) {
  if (stream_.measuring()) return;
  std::vector<float> numbers = values_on_host(numbers_, stream_);
  const float step = static_cast<float>(at.in_part), apart = step - numbers[1];
  for (int64_t b = 0; b < velocity.dim(0); ++b) {
    const auto at_b = static_cast<size_t>(b);
    const Tensor v = velocity.select(0, b);
    if (numbers[0] > 0) {
      ops::LincombArgs slope{.count = 2, .out = slopes_[at_b]};
      slope.terms[0] = {v, 1 / apart}, slope.terms[1] = {outputs_[at_b], -1 / apart};
      ops::lincomb(slope, stream_);
    } else {
      zero(slopes_[at_b], stream_);
    }
    copy_bytes(v, outputs_[at_b], stream_);
  }
  numbers[0] = std::min(numbers[0] + 1, 2.0f), numbers[1] = step;
  upload(numbers.data(), numbers_, stream_);
}

}  // namespace tachy
