#include "resolve/resolve_step_cache.h"

#include "base/error.h"
#include "resolve/step_cache_values.h"

namespace tachy {
namespace {

constexpr double kEasyCache = 0.05;   // the default of EasyCache's code for Wan
constexpr double kTaylorShare = 0.8;  // an interval of five steps, TaylorSeer's default
constexpr double kMostTaylor = 0.95;  // an interval of 20 steps

double usual_threshold(StepCacheKind kind, const StepCacheValues& values) {
  switch (kind) {
    case StepCacheKind::rate:
      break;
    case StepCacheKind::easycache:
      return kEasyCache;
    case StepCacheKind::teacache:
      return values.teacache_threshold;
    case StepCacheKind::magcache:
      return values.magcache_threshold;
    case StepCacheKind::taylorseer:
      return kTaylorShare;
  }
  return 0;
}

}  // namespace

void resolve_step_cache(const ModelBundle& model, const VideoRequest& given, bool off, Resolved& out) {
  VideoRequest& r = out.request;
  const StepCacheKind kind = parse_step_cache_kind(r.step_cache_kind);
  if (kind == StepCacheKind::rate || off) return;
  const char* const name = r.step_cache_kind.c_str();
  require(r.block == 0, "`step_cache_kind`: {} cannot be combined with `block`; leave it out", name);
  if (given.step_cache == 0) return;
  StepCacheValues values = step_cache_values(model, int64_t{*r.width} * *r.height, out.pictured);
  const bool missing = (kind == StepCacheKind::teacache && values.coefficients.empty()) ||
                       (kind == StepCacheKind::magcache && values.ratios.empty());
  check(!missing, ErrorCode::unsupported,
        "`step_cache_kind`: {} goes by numbers that are measured with a model, and there are none for this "
        "one; "
        "rate, easycache and taylorseer need none, or give the model its own ones in generation_config.json "
        "({})",
        name, kind == StepCacheKind::teacache ? "teacache_coefficients" : "magcache_ratios");
  r.step_cache = given.step_cache.value_or(usual_threshold(kind, values));
  require(kind != StepCacheKind::taylorseer || *r.step_cache <= kMostTaylor,
          "`step_cache`: expected up to {} with `step_cache_kind` taylorseer, where it is the share of steps "
          "that "
          "are predicted, got {}",
          kMostTaylor, *r.step_cache);
  out.step_cache.values = std::move(values);
  const bool of_blocks = kind == StepCacheKind::teacache || kind == StepCacheKind::magcache;
  require(
      !of_blocks || r.windows == "none" || r.speech,
      "`step_cache_kind`: {} keeps what one pass of a clip left, and with `windows` there are several; leave "
      "one out",
      name);
}

}  // namespace tachy
