#include "denoise/block_cache.h"

#include <map>

#include "tensor/transfer.h"

namespace tachy {

BlockCache::BlockCache(const Tensor& shape, int64_t branches, Denoiser& denoiser, nn::ParamStore& store)
    : denoiser_(denoiser), stream_(store.stream()) {
  for (int64_t b = 0; b < branches; ++b) latents_.push_back(store.allocate(DType::f32, shape.shape()));
}

void BlockCache::computed(const StepPlace& at, const Tensor& latents, const Tensor& velocity) {
  if (stream_.measuring()) return;
  const uint32_t reused = denoiser_.reuses(at.step);
  for (int64_t b = 0; b < velocity.dim(0); ++b)
    if ((reused >> b & 1) == 0) copy_bytes(latents, latents_[static_cast<size_t>(b)], stream_);
}

// The steps are made once more in their order, so that a branch that reused in one of them finds its sum.
void BlockCache::resumed(const StepPlace& at, const Tensor& velocity) {
  if (at.in_part == 0 || stream_.measuring()) return;
  std::map<int, size_t> made;  // step, and a branch that ran its blocks last in it
  for (size_t b = 0; b < latents_.size() && static_cast<int64_t>(b) < velocity.dim(0); ++b)
    for (int step = at.step - 1; step >= at.step - at.in_part; --step)
      if ((denoiser_.reuses(step) >> b & 1) == 0) {
        made[step] = b;
        break;
      }
  for (const auto& [step, branch] : made) denoiser_.predict(latents_[branch], step, velocity);
}

}  // namespace tachy
