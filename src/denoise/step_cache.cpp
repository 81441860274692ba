#include "denoise/step_cache.h"

#include <cmath>

#include "denoise/block_cache.h"
#include "denoise/easy_cache.h"
#include "denoise/rate_cache.h"
#include "denoise/taylor_cache.h"
#include "tensor/transfer.h"

namespace tachy {

double l1_norm(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += std::abs(v);
  return sum;
}

double l1_distance(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::abs(static_cast<double>(x[i]) - y[i]);
  return sum;
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
