#include "request/stage_plan.h"

#include <algorithm>

#include "base/error.h"

namespace tachy {

uint64_t bytes_of(const VideoPlan& plan, const StagePlan& stage) {
  return plan.shared_bytes + stage.weight_bytes + stage.arena_bytes;
}

const StagePlan& stage_plan(const VideoPlan& plan, std::string_view name) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(),
                                  [&](const StagePlan& s) { return s.name == name; });
  check(found != plan.stages.end(), ErrorCode::internal, "plan: no stage '{}'", name);
  return *found;
}

Placement placement_of(const VideoPlan& plan) {
  return {.text = stage_plan(plan, "text").streamed,
          .denoise = stage_plan(plan, "denoise").streamed,
          .keeps = plan.keeps,
          .keys_stay = plan.keys_stay,
          .vae_latents = plan.vae_latents,
          .ranks = std::max(1, static_cast<int>(plan.ranks.size()))};
}

}  // namespace tachy
