#include "request/sampler_config.h"

namespace tachy {

SamplerConfig sampler_config(const VideoRequest& r) {
  if (const FewStepList* list = find_few_step_list(*r.sampler)) {
    SamplerConfig config = few_step_config(list->name, few_step_takes(*list, *r.steps) ? *r.steps : 0);
    config.high_noise_steps = r.high_noise_steps.value_or(config.high_noise_steps);
    config.strength = r.video ? r.strength.value_or(1) : 1;
    return config;
  }
  SamplerConfig config;
  config.strength = r.video ? r.strength.value_or(1) : 1;
  config.high_noise_steps = r.high_noise_steps.value_or(-1);
  config.kind = parse_sampler(*r.sampler);
  config.grid = parse_grid(*r.grid);
  config.steps = *r.steps;
  config.shift = *r.shift;
  return config;
}

}  // namespace tachy
