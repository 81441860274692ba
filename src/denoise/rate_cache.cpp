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

const std::vector<float>& RateCache::fetch(const Tensor& from, OnHost& to) const {
  if (!to.known) {
    to.values.resize(static_cast<size_t>(from.numel()));
    download(from, to.values.data(), stream_);
    to.known = true;
  }
  return to.values;
}

RateCache::Numbers RateCache::numbers() const {
  Numbers out = {};
  download(numbers_.flat(0, static_cast<int64_t>(out.size())), out.data(), stream_);
  return out;
}

StepCache::Found RateCache::reuse(const StepPlace& at, const Tensor& latents, const Tensor& velocity) {
  x_.known = v_.known = false;
  if (at.last || stream_.measuring()) return Found::nothing;
  const auto [count, rate, size] = numbers();
  if (count < static_cast<float>(config_.first_steps())) return Found::nothing;
  const double moved = l1_distance(fetch(latents, x_), fetch(last_.latents, last_.x));
  if (double{rate} * moved >= config_.threshold * double{size}) return Found::nothing;
  copy_bytes(last_.velocity, velocity.select(0, 0), stream_);
  return Found::prediction;
}

void RateCache::forget() { zero(numbers_, stream_); }

void RateCache::guided(const Tensor& latents, const Tensor& velocity) {
  if (stream_.measuring()) return;
  Numbers now = numbers();
  Pair& from = config_.coarse && now[0] >= 2 ? earlier_ : last_;
  const std::vector<float>&x = fetch(latents, x_), &v = fetch(velocity, v_);
  const double moved = now[0] > 0 ? l1_distance(x, fetch(from.latents, from.x)) : 0;
  now[1] = moved > 0 ? static_cast<float>(l1_distance(v, fetch(from.velocity, from.v)) / moved) : 0.0f;
  now[2] = static_cast<float>(l1_norm(v));
  now[0] = std::min(now[0] + 1, 3.0f);
  upload(now.data(), numbers_.flat(0, static_cast<int64_t>(now.size())), stream_);
  if (config_.coarse) {
    copy(last_, earlier_);
    std::swap(last_.x, earlier_.x), std::swap(last_.v, earlier_.v);
  }
  copy({latents, velocity}, last_);
  std::swap(x_, last_.x), std::swap(v_, last_.v);  // which keeps the memory of what is no longer needed
  x_.known = v_.known = false;
}

void RateCache::copy(const Pair& from, const Pair& to) const {
  copy_bytes(from.latents, to.latents, stream_), copy_bytes(from.velocity, to.velocity, stream_);
}

}  // namespace tachy
