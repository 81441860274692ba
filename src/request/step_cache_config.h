// The settings by which a run's step cache decides (denoise/step_cache.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/field.h"
#include "request/request.h"

namespace tachy {

// The first is this engine's own; the others are published methods.
enum class StepCacheKind { rate, easycache, teacache, magcache, taylorseer };

const Choices& step_cache_kinds();
StepCacheKind parse_step_cache_kind(std::string_view name);

// Numbers that were measured with one model, and by which some kinds decide. A model's own ones are in its
// generation_config.json; those of Wan's models are the published ones (resolve/step_cache_values.h).
struct StepCacheValues {
  std::vector<double> coefficients;  // TeaCache's polynomial, the highest power first; empty: none is known
  double teacache_threshold = 0;     // used if the request has none
  // MagCache's ratios of the blocks' results in successive steps: the first step with the prompt, the same
  // without it, the second step with the prompt, and so on. Empty: none are known.
  std::vector<double> ratios;
  double magcache_threshold = 0;
  double retention = 0.2;  // share of the first steps that are computed
  int most = 2;            // most steps in a row that reuse
  // With two experts: all steps of the first one are computed.
  bool first_expert_whole = false;
};

struct StepCacheConfig {
  double threshold = 0;  // 0: the cache is off and holds nothing
  bool coarse = false;   // the model multiplies in 8 bits
  StepCacheKind kind = StepCacheKind::rate;
  StepCacheValues values = {};

  bool on() const { return threshold > 0; }
  // Says whether steps reuse what the transformer's blocks added, so that only patches and head are computed.
  bool of_blocks() const {
    return on() && (kind == StepCacheKind::teacache || kind == StepCacheKind::magcache);
  }
  // rate: how many first steps are always computed. The last one is, too.
  int first_steps() const { return coarse ? 3 : 2; }
  // Says whether any of so many steps may be reused.
  bool may_reuse(int steps) const {
    return on() && (kind != StepCacheKind::rate || steps > first_steps() + 1);
  }
  // Returns the number of tensors of the latents' shape that a resumed run with so many branches needs.
  int state_tensors(int64_t branches) const;
  // TaylorSeer's interval: of so many steps one is computed. The threshold is the share of the others.
  int interval() const;
};

// Reads the threshold, the kind and the products' width from a resolved request.
StepCacheConfig step_cache_of(const VideoRequest& resolved);

}  // namespace tachy
