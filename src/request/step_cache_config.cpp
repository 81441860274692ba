#include "request/step_cache_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tachy {

const Choices& step_cache_kinds() {
  static const Choices all = {"rate", "easycache", "teacache", "magcache", "taylorseer"};
  return all;
}

StepCacheKind parse_step_cache_kind(std::string_view name) {
  if (name == "rate") return StepCacheKind::rate;
  if (name == "easycache") return StepCacheKind::easycache;
  if (name == "teacache") return StepCacheKind::teacache;
  if (name == "magcache") return StepCacheKind::magcache;
  if (name == "taylorseer") return StepCacheKind::taylorseer;
  fail(ErrorCode::invalid_argument, "expected rate, easycache, teacache, magcache or taylorseer, got '{}'",
       name);
}

StepCacheConfig step_cache_of(const VideoRequest& resolved) {
  return {.threshold = resolved.step_cache.value_or(0),
          .coarse = resolved.math == "fp8" || resolved.math == "int8" || resolved.attention == "int8",
          .kind = parse_step_cache_kind(resolved.step_cache_kind)};
}

int StepCacheConfig::state_tensors(int64_t branches) const {
  if (!on()) return 0;
  const int of_branches = static_cast<int>(branches);
  switch (kind) {
    case StepCacheKind::rate:
      return coarse ? 5 : 3;
    case StepCacheKind::easycache:
      return 3 + of_branches;
    case StepCacheKind::teacache:
    case StepCacheKind::magcache:
      return of_branches;
    case StepCacheKind::taylorseer:
      return 1 + 2 * of_branches;
  }
  return 0;
}

int StepCacheConfig::interval() const {
  return std::max(1, static_cast<int>(std::lround(1 / std::max(1 - threshold, 1e-3))));
}

}  // namespace tachy
