// The settings by which a run's step cache decides (denoise/step_cache.h).
#pragma once

#include "request/request.h"

namespace tachy {

struct StepCacheConfig {
  double threshold = 0;  // 0: the cache is off and holds nothing
  bool coarse = false;   // the model multiplies in 8 bits

  // Returns the number of tensors of the latents' shape that a resumed run needs.
  int state_tensors() const { return threshold <= 0 ? 0 : coarse ? 5 : 3; }
};

// Reads the threshold and the products' width from a resolved request.
inline StepCacheConfig step_cache_of(const VideoRequest& resolved) {
  return {.threshold = resolved.step_cache.value_or(0),
          .coarse = resolved.math == "fp8" || resolved.math == "int8" || resolved.attention == "int8"};
}

}  // namespace tachy
