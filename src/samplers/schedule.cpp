// The noise levels of a run and the timesteps that the model sees.
//
// shift(s, b) = s b / (1 + (s - 1) b) is computed in double in this order of operations. The references use
// numpy, and truncated timesteps and float32 sigmas have to be identical, not merely close.
#include <cmath>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

constexpr double kTrainSteps = 1000;
constexpr int kMaxSteps = 1000;

// Does what numpy.linspace(start, stop, count) does: the last value is `stop` itself.
std::vector<double> linspace(double start, double stop, int count) {
  std::vector<double> out(static_cast<size_t>(count), start);
  if (count < 2) return out;
  const double step = (stop - start) / (count - 1);
  for (int i = 0; i < count; ++i) out[static_cast<size_t>(i)] = i * step + start;
  out.back() = stop;
  return out;
}

std::vector<double> drop_last(std::vector<double> values) {
  values.pop_back();
  return values;
}

// The wrapper constructs its schedulers with the shift: their highest sigma is the shifted 0.999 in float32,
// and the list is then shifted once more.
std::vector<double> wrapper_bases(const SamplerConfig& config) {
  const auto shift = static_cast<float>(config.shift), less = static_cast<float>(config.shift - 1);
  return drop_last(linspace(shift * 0.999f / (1 + less * 0.999f), 0.0, config.steps + 1));
}

std::vector<double> unipc_bases(const SamplerConfig& config) {
  if (config.grid == Grid::wrapper) return wrapper_bases(config);
  // The original's highest sigma is the float32 value of 0.999.
  if (config.grid == Grid::original) return drop_last(linspace(0.999f, 0.0, config.steps + 1));
  return drop_last(linspace(1.0, 1 / kTrainSteps, config.steps + 1));
}

std::vector<double> dpmpp_bases(const SamplerConfig& config) {
  if (config.grid == Grid::wrapper) return wrapper_bases(config);
  if (config.grid == Grid::original) return drop_last(linspace(1.0, 0.0, config.steps + 1));
  // diffusers makes the grid over alpha = 1 - sigma, so it starts at 0.999 and ends above 0.
  const std::vector<double> alphas = linspace(1.0, 1 / kTrainSteps, config.steps + 1);
  std::vector<double> out;
  for (int i = config.steps; i > 0; --i) out.push_back(1.0 - alphas[static_cast<size_t>(i)]);
  return out;
}

std::vector<double> euler_bases(const SamplerConfig& config) {
  if (config.grid == Grid::original) return drop_last(linspace(1.0, 0.0, config.steps + 1));
  // This is the first of diffusers' two shifts: its constructor keeps the shifted ends in float32.
  const auto shift = static_cast<float>(config.shift);
  auto end = [&](float t) {
    const float base = t / static_cast<float>(kTrainSteps);
    return static_cast<double>(shift * base / (1 + static_cast<float>(config.shift - 1) * base)) *
           kTrainSteps;
  };
  std::vector<double> out = linspace(end(1000.f), end(1.f), config.steps);
  for (double& value : out) value /= kTrainSteps;
  return out;
}

// The timesteps of Grid::multitalk: numpy's linspace is rounded to float32, and the rest is torch's float32.
std::vector<float> multitalk_timesteps(const SamplerConfig& config) {
  const auto shift = static_cast<float>(config.shift), less = static_cast<float>(config.shift - 1);
  constexpr auto kSteps = static_cast<float>(kTrainSteps);
  std::vector<float> out;
  for (const double t : linspace(kTrainSteps, 1.0, config.steps)) {
    const float base = static_cast<float>(t) / kSteps;
    out.push_back(shift * base / (1 + less * base) * kSteps);
  }
  return out;
}

std::vector<double> grid_sigmas(const SamplerConfig& config) {
  std::vector<double> out;
  switch (config.kind) {
    case SamplerKind::unipc:
      out = unipc_bases(config);
      break;
    case SamplerKind::dpmpp:
    case SamplerKind::dpmpp_sde:
      out = dpmpp_bases(config);
      break;
    case SamplerKind::euler:
    case SamplerKind::lcm:
      out = euler_bases(config);
      break;
  }
  for (double& value : out) value = shifted(config.shift, value);
  // diffusers moves a first sigma of 1 away from lambda's singularity.
  if (config.kind == SamplerKind::unipc && config.grid == Grid::diffusers && std::fabs(out[0] - 1) < 1e-6)
    out[0] -= 1e-6;
  return out;
}

void check_config(const SamplerConfig& config) {
  if (config.sigmas.empty()) {
    require(config.timesteps.empty(), "sampler: a list of timesteps needs a list of sigmas beside it");
    require(config.steps >= 1 && config.steps <= kMaxSteps, "steps: expected 1 to {}, got {}", kMaxSteps,
            config.steps);
    require(config.shift >= 0.01 && config.shift <= 1000, "shift: expected 0.01 to 1000, got {}",
            config.shift);
    require(config.grid != Grid::multitalk || config.kind == SamplerKind::euler ||
                config.kind == SamplerKind::lcm,
            "`grid`: multitalk is a grid of euler and lcm, the sampler is {}", to_string(config.kind));
    return;
  }
  require(config.sigmas.size() <= kMaxSteps, "sigmas: expected at most {} values, got {}", kMaxSteps,
          config.sigmas.size());
  double above = 1.0 + 1e-12;
  for (double sigma : config.sigmas) {
    require(sigma > 0 && sigma < above,
            "sigmas: expected values that fall from at most 1 to above 0, got {} after {}", sigma, above);
    above = sigma;
  }
  require(config.timesteps.empty() || config.timesteps.size() == config.sigmas.size(),
          "timesteps: expected {} values, one a sigma, got {}", config.sigmas.size(),
          config.timesteps.size());
  for (double t : config.timesteps)
    require(t >= 0 && t <= kTrainSteps, "timesteps: expected values from 0 to 1000, got {}", t);
}

void check_falling(const Schedule& s, const SamplerConfig& config) {
  for (size_t i = 1; i < s.sigmas.size(); ++i)
    require(
        s.sigmas[i] < s.sigmas[i - 1],
        "sampler: {} steps with shift {} repeat the sigma {} in float32; use fewer steps or a smaller shift",
        s.sigmas.size(), config.shift, s.sigmas[i]);
}

// ComfyUI's scheduler "simple" over its table sigma[k], k = 1 … 1000, which is torch's float32. The samplers uni_pc
// drop the last sigma but one of a schedule that has one step more.
Schedule comfyui_schedule(const SamplerConfig& config) {
  const auto shift = static_cast<float>(config.shift), less = static_cast<float>(config.shift - 1);
  constexpr auto kSteps = static_cast<float>(kTrainSteps);
  const double stride = kTrainSteps / (config.steps + (config.kind == SamplerKind::unipc ? 1 : 0));
  Schedule out;
  out.high_noise_steps = config.high_noise_steps;
  for (int i = 0; i < config.steps; ++i) {
    const int k = static_cast<int>(kTrainSteps) - static_cast<int>(i * stride);
    const float base = static_cast<float>(k) / kSteps * kSteps / kSteps;
    out.sigmas.push_back(config.shift == 1 ? base : shift * base / (1 + less * base));
    out.timesteps.push_back(out.sigmas.back() * kSteps);
  }
  check_falling(out, config);
  out.sigmas.push_back(0.0f);
  return out;
}

Schedule multitalk_schedule(const SamplerConfig& config) {
  Schedule out;
  out.high_noise_steps = config.high_noise_steps;
  for (const float t : multitalk_timesteps(config)) {
    out.timesteps.push_back(t);
    out.sigmas.push_back(t / static_cast<float>(kTrainSteps));
  }
  check_falling(out, config);
  out.sigmas.push_back(0.0f);
  return out;
}

}  // namespace

Schedule make_schedule(const SamplerConfig& config) {
  check_config(config);
  const bool listed = !config.sigmas.empty();
  if (!listed && config.grid == Grid::multitalk) return multitalk_schedule(config);
  if (!listed && config.grid == Grid::comfyui) return comfyui_schedule(config);
  const std::vector<double> sigmas = listed ? config.sigmas : grid_sigmas(config);
  const bool whole = config.kind != SamplerKind::euler && config.kind != SamplerKind::lcm;
  Schedule out;
  out.high_noise_steps = config.high_noise_steps;
  for (double sigma : sigmas) {
    out.sigmas.push_back(static_cast<float>(sigma));
    // As in the references, whole timesteps are truncated double products, and fractional ones are float32
    // products.
    out.timesteps.push_back(whole ? std::trunc(sigma * kTrainSteps)
                                  : static_cast<double>(out.sigmas.back() * static_cast<float>(kTrainSteps)));
  }
  check_falling(out, config);
  out.sigmas.push_back(0.0f);
  if (!config.timesteps.empty()) out.timesteps = config.timesteps;
  return out;
}

}  // namespace tachy
