#include "denoise/ranks_causal.h"

namespace tachy {

template <class Pass>
void RanksCausal::on_each(const Tensor& latents, const Pass& pass) {
  run_([&](int rank) {
    CausalDenoiser& own = *ranks_[static_cast<size_t>(rank)];
    const Tensor here = rank == 0 ? latents : own.latents(latents.dim(1));
    if (rank > 0) own.take_latents(latents);
    pass(own, here);
  });
}

void RanksCausal::begin_block(int64_t frames, const WanScript& script) {
  run_([&](int rank) { ranks_[static_cast<size_t>(rank)]->begin_block(frames, script); });
}

// Only the first rank writes the velocity.
void RanksCausal::predict(const Tensor& latents, int step, const Tensor& velocity) {
  on_each(latents, [&](CausalDenoiser& own, const Tensor& here) { own.predict(here, step, velocity); });
}

void RanksCausal::remember(const Tensor& latents) {
  on_each(latents, [](CausalDenoiser& own, const Tensor& here) { own.remember(here); });
}

}  // namespace tachy
