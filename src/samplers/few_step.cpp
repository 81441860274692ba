// The timestep lists of published distilled models.
//
// A list consists of sigmas and the timesteps that the model sees. "shift s of b" is s b / (1 + (s - 1) b).
// Stochastic lists add new noise in each step (SamplerKind::lcm). Their sigmas come from the shifted table of
// 1000 points, at the entries nearest to their timesteps. The values are taken from LightX2V's step_distill
// scheduler and configs, Wan2.2-Lightning, ComfyUI-WanVideoWrapper's scheduler options, CausVid,
// Self-Forcing, Matrix-Game 2, FastVideo, and rCM's inference scripts.
#include <cmath>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

SamplerConfig euler_list(double shift, const std::vector<double>& bases) {
  SamplerConfig config;
  config.kind = SamplerKind::euler;
  config.shift = shift;
  for (double base : bases) config.sigmas.push_back(shifted(shift, base));
  config.steps = static_cast<int>(bases.size());
  return config;
}

// Takes the given timesteps, with sigma = t / 1000; the published recipe ignores the shift here.
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

// Takes the values that the published code gets in float32, because the model sees fractional timesteps.
SamplerConfig renoise_values(double shift, const std::vector<double>& timesteps,
                             const std::vector<double>& sigmas) {
  SamplerConfig config;
  config.kind = SamplerKind::lcm;
  config.shift = shift;
  config.steps = static_cast<int>(timesteps.size());
  config.timesteps = timesteps;
  config.sigmas = sigmas;
  return config;
}

// LightX2V's config for a first and a last picture gives each expert two of the four steps
// (boundary_step_index), whereas the boundary of the timesteps would give the first expert three.
SamplerConfig flf2v_list(const std::vector<double>& bases) {
  SamplerConfig config = euler_list(16, bases);
  config.high_noise_steps = 2;
  return config;
}

// rCM describes noise by an angle a: x = cos(a) x0 + sin(a) noise. On a straight line between x0 and noise
// this corresponds to sigma = tan(a) / (1 + tan(a)). The first angle is atan(most). The noise with which a
// run begins is multiplied by its sigma. In training and in inference, rCM's scripts pass the timesteps to
// the network in bfloat16, whose values are 4 apart in this range, so the model knows no others.
SamplerConfig rcm_list(double most, double first_timestep) {
  SamplerConfig config;
  config.kind = SamplerKind::lcm;
  config.shift = 1;
  config.sigmas = {most / (1 + most)};
  for (const double angle : {1.5, 1.4, 1.0}) config.sigmas.push_back(std::tan(angle) / (1 + std::tan(angle)));
  config.timesteps = {first_timestep, 932, 852, 608};
  config.steps = 4;
  config.scaled_noise = true;
  return config;
}

}  // namespace

const std::vector<FewStepList>& few_step_lists() {
  static const std::vector<double> quarters = {1, 0.75, 0.5, 0.25};
  static const std::vector<FewStepList> lists = {
      {"lightx2v-4", "LightX2V step distillation of Wan2.1 and Wan2.2 A14B (two steps an expert)",
       euler_list(5, quarters)},
      {"lightning-4", "Wan2.2-Lightning four-step LoRA (two steps an expert)", euler_list(5, quarters)},
      {"lightx2v-flf2v-4", "LightX2V step distillation of Wan2.2 first-and-last-frame", flf2v_list(quarters)},
      {"flowmatch-distill-4", "ComfyUI-WanVideoWrapper's flowmatch_distill at shift 5",
       euler_list(5, {0.999, 0.75, 0.5, 0.25})},
      {"causvid-14b", "CausVid 14B LoRA; the first 1 to 9 steps of the list",
       euler_timesteps({999, 934, 862, 756, 603, 410, 250, 140, 74})},
      {"causvid-1.3b-4", "CausVid 1.3B LoRA", euler_timesteps({1000, 750, 500, 250})},
      {"causvid-causal-3", "CausVid autoregressive 1.3B, three steps, renoising",
       renoise_timesteps(8, {1000, 757, 522})},
      {"causvid-causal-4", "CausVid autoregressive 1.3B, four steps, renoising", renoise_list(8, quarters)},
      {"self-forcing-4", "Self-Forcing 1.3B, renoising", renoise_list(5, quarters)},
      {"matrix-game-2-3", "Matrix-Game 2 universal and gta_drive, renoising",
       renoise_values(5, {1000, 908.842712, 713.979431}, {1, 0.908842742, 0.713979423})},
      {"matrix-game-2-4", "Matrix-Game 2 templerun, renoising",
       renoise_values(5, {1000, 937.5, 833.333313, 625}, {1, 0.9375, 0.833333313, 0.625})},
      {"fastwan-3", "FastWan (FastVideo DMD), renoising", renoise_timesteps(8, {1000, 757, 522})},
      {"rcm-4", "rCM of Wan2.1 T2V, renoising from sigma 80 of its scale", rcm_list(80, 988)},
      {"rcm-a14b-4", "rCM merged into Wan2.2-I2V-A14B, renoising from sigma 200 of its scale",
       rcm_list(200, 996)},
  };
  return lists;
}

const FewStepList* find_few_step_list(std::string_view name) {
  for (const FewStepList& list : few_step_lists())
    if (list.name == name) return &list;
  return nullptr;
}

bool few_step_takes(const FewStepList& list, int steps) {
  // No other recipe is published as a list of which a run may take only the beginning.
  const bool begins = list.name == "causvid-14b" && steps >= 1 && steps < list.config.steps;
  return begins || steps == list.config.steps;
}

SamplerConfig few_step_config(std::string_view name, int steps) {
  std::string known;
  for (const FewStepList& list : few_step_lists()) {
    known += (known.empty() ? "" : ", ") + std::string(list.name);
    if (list.name != name) continue;
    SamplerConfig config = list.config;
    if (steps == 0 || steps == config.steps) return config;
    require(few_step_takes(list, steps), "`steps`: the list {} has {} steps, got {}", name, config.steps,
            steps);
    config.sigmas.resize(static_cast<size_t>(steps));
    config.timesteps.resize(static_cast<size_t>(steps));
    config.steps = steps;
    return config;
  }
  fail(ErrorCode::invalid_argument, "few-step list: expected one of {}; got '{}'", known, name);
}

}  // namespace tachy
