// Tells beforehand which steps reuse what the transformer's blocks added (block_cache.h). Each function returns a
// number for every step, whose bit b says that branch b of guidance reuses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/step_cache_config.h"

namespace tachy {

// The steps of one network in a run.
struct BlockSteps {
  int first = 0, count = 0;  // the network's steps
  int all = 0;               // those of the run
  int second_from = 0;       // the first step of the second of two experts; 0: there is one network
  int64_t branches = 1;
};

// TeaCache (Liu et al., arXiv 2411.19108), as published for Wan: `embeddings` has `width` values for each step, the
// time embedding e. Each step adds p(|e − e of the step before| / |e of the step before|), with L1 norms and the
// polynomial p, and reuses while the sum is below the threshold; a step that computes begins again with 0. A
// network's first step and the run's last one are computed. Branches do the same.
std::vector<uint32_t> teacache_steps(const StepCacheConfig& config, const BlockSteps& steps,
                                     std::span<const float> embeddings, int64_t width);

// MagCache (Ma et al., arXiv 2506.09045), as published for Wan: after the first steps, of which `retention` is the
// share, each step of a branch multiplies the ratios since the last computed one, r, adds |1 − r| to an error, and
// reuses while the error is below the threshold, at most `most` times in a row. The ratios of another number of
// steps are the nearest ones. Branches after the first two use the second one's ratios.
std::vector<uint32_t> magcache_steps(const StepCacheConfig& config, const BlockSteps& steps);

}  // namespace tachy
