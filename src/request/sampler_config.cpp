#include "request/sampler_config.h"

namespace tachy {

SamplerConfig sampler_config(const VideoRequest& r) {
  if (const FewStepList* list = find_few_step_list(*r.sampler))
    return few_step_config(list->name, few_step_takes(*list, *r.steps) ? *r.steps : 0);
  SamplerConfig config;
  config.kind = parse_sampler(*r.sampler);
  config.grid = parse_grid(*r.grid);
  config.steps = *r.steps;
  config.shift = *r.shift;
  return config;
}

}  // namespace tachy
