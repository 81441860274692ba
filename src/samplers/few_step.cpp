// The timestep lists of published distilled models.
//
// A list is sigmas and what the model is told. "shift s of b" is s b / (1 + (s - 1) b). Stochastic lists
// renoise (SamplerKind::lcm) and take each sigma as the entry of the 1000-point shifted table nearest to
// their timestep. Sources of the values: LightX2V's step_distill scheduler, Wan2.2-Lightning,
// ComfyUI-WanVideoWrapper's scheduler options, CausVid, Self-Forcing, FastVideo.
#include <cmath>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

double shifted(double shift, double base) { return shift * base / (1 + (shift - 1) * base); }

SamplerConfig euler_list(double shift, const std::vector<double>& bases) {
  SamplerConfig config;
  config.kind = SamplerKind::euler;
  config.shift = shift;
  for (double base : bases) config.sigmas.push_back(shifted(shift, base));
  config.steps = static_cast<int>(bases.size());
  return config;
}

// Timesteps as given, sigma = t / 1000; the published recipe ignores the shift here.
SamplerConfig euler_timesteps(const std::vector<double>& timesteps) {
  SamplerConfig config = euler_list(1, timesteps);
  config.timesteps = timesteps;
  for (size_t i = 0; i < timesteps.size(); ++i) config.sigmas[i] = timesteps[i] / 1000;
  return config;
}

double table_sigma(double shift, double timestep) {
  double best = 1;
  for (int k = 1000; k >= 1; --k) {
    const double sigma = shifted(shift, k / 1000.0);
    if (std::fabs(1000 * sigma - timestep) < std::fabs(1000 * best - timestep)) best = sigma;
  }
  return best;
}

SamplerConfig renoise_timesteps(double shift, const std::vector<double>& timesteps) {
  SamplerConfig config;
  config.kind = SamplerKind::lcm;
  config.shift = shift;
  config.steps = static_cast<int>(timesteps.size());
  config.timesteps = timesteps;
  for (double t : timesteps) config.sigmas.push_back(table_sigma(shift, t));
  return config;
}

SamplerConfig renoise_list(double shift, const std::vector<double>& bases) {
  SamplerConfig config = euler_list(shift, bases);
  config.kind = SamplerKind::lcm;
  return config;
}

}  // namespace

const std::vector<FewStepList>& few_step_lists() {
  static const std::vector<double> quarters = {1, 0.75, 0.5, 0.25};
  static const std::vector<FewStepList> lists = {
      {"lightx2v-4", "LightX2V step distillation of Wan2.1 and Wan2.2 A14B (two steps an expert)",
       euler_list(5, quarters)},
      {"lightning-4", "Wan2.2-Lightning four-step LoRA (two steps an expert)", euler_list(5, quarters)},
      {"lightx2v-flf2v-4", "LightX2V step distillation of Wan2.2 first-and-last-frame",
       euler_list(16, quarters)},
      {"flowmatch-distill-4", "ComfyUI-WanVideoWrapper's flowmatch_distill at shift 5",
       euler_list(5, {0.999, 0.75, 0.5, 0.25})},
      {"causvid-14b", "CausVid 14B LoRA; the first 1 to 9 steps of the list",
       euler_timesteps({999, 934, 862, 756, 603, 410, 250, 140, 74})},
      {"causvid-1.3b-4", "CausVid 1.3B LoRA", euler_timesteps({1000, 750, 500, 250})},
      {"causvid-causal-3", "CausVid autoregressive 1.3B, three steps, renoising",
       renoise_timesteps(8, {1000, 757, 522})},
      {"causvid-causal-4", "CausVid autoregressive 1.3B, four steps, renoising", renoise_list(8, quarters)},
      {"self-forcing-4", "Self-Forcing 1.3B, renoising", renoise_list(5, quarters)},
      {"fastwan-3", "FastWan (FastVideo DMD), renoising", renoise_timesteps(8, {1000, 757, 522})},
  };
  return lists;
}

SamplerConfig few_step_config(std::string_view name, int steps) {
  std::string known;
  for (const FewStepList& list : few_step_lists()) {
    known += (known.empty() ? "" : ", ") + std::string(list.name);
    if (list.name != name) continue;
    SamplerConfig config = list.config;
    if (steps == 0 || steps == config.steps) return config;
    // Only this recipe is published as a list of which a run takes the beginning.
    require(name == "causvid-14b" && steps >= 1 && steps < config.steps, "steps: {} has {} steps, got {}",
            name, config.steps, steps);
    config.sigmas.resize(static_cast<size_t>(steps));
    config.timesteps.resize(static_cast<size_t>(steps));
    config.steps = steps;
    return config;
  }
  fail(ErrorCode::invalid_argument, "few-step list: expected one of {}; got '{}'", known, name);
}

}  // namespace tachy
