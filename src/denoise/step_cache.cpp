#include "denoise/step_cache.h"

#include <array>
#include <cmath>

#include "denoise/block_cache.h"
#include "denoise/easy_cache.h"
#include "denoise/rate_cache.h"
#include "denoise/taylor_cache.h"
#include "tensor/transfer.h"

namespace tachy {

namespace {

// Adds value(i) of n numbers in sums that a compiler can make a vector of. Which number goes to which sum is fixed.
template <class Value>
double sum_of(size_t n, const Value& value) {
  constexpr size_t kSums = 8;
  std::array<double, kSums> sums = {};
  for (size_t i = 0; i + kSums <= n; i += kSums)
    for (size_t j = 0; j < kSums; ++j) sums[j] += value(i + j);
  double all = 0;
  for (size_t i = n / kSums * kSums; i < n; ++i) all += value(i);
  for (const double sum : sums) all += sum;
  return all;
}

}  // namespace

double l1_norm(std::span<const float> x) {
  return sum_of(x.size(), [&](size_t i) { return double{std::abs(x[i])}; });
}

double l1_distance(std::span<const float> x, std::span<const float> y) {
  return sum_of(x.size(), [&](size_t i) { return std::abs(double{x[i]} - double{y[i]}); });
}

std::vector<float> values_on_host(const Tensor& t, Stream& stream) {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  download(t, values.data(), stream);
  return values;
}

std::unique_ptr<StepCache> make_step_cache(const StepCacheConfig& config, const Tensor& latents,
                                           int64_t branches, Denoiser& denoiser, nn::ParamStore& store) {
  if (!config.on()) return nullptr;
  switch (config.kind) {
    case StepCacheKind::rate:
      return std::make_unique<RateCache>(config, latents, store);
    case StepCacheKind::easycache:
      return std::make_unique<EasyCache>(config, latents, branches, store);
    case StepCacheKind::taylorseer:
      return std::make_unique<TaylorCache>(config, latents, branches, store);
    case StepCacheKind::teacache:
    case StepCacheKind::magcache:
      return std::make_unique<BlockCache>(latents, branches, denoiser, store);
  }
  return nullptr;
}

}  // namespace tachy
