// The rules are those of comfy/samplers.py, comfy/k_diffusion/sampling.py and comfy/extra_samplers/uni_pc.py of ComfyUI
// 0.3.64. With v the model's output, s a sigma and x0 = x - s v, its samplers integrate dx/ds = (x - x0) / s, which is v.
//   euler      x + (s' - s) v: ours.
//   lcm        (1 - s') x0 + s' noise: ours but for the noise, which ComfyUI draws from a generator of its own.
//   dpmpp_2m   in ln(1/s), where ours is in ln((1 - s) / s): other weights of the same values.
//   uni_pc     of order 3 in ln(1/s) down to 0.001, where ours is of order 2 in ln((1 - s) / s).
#include "workflows/sampling.h"

#include <fmt/format.h>

#include <algorithm>

namespace tachy::workflows {
namespace {

struct Rule {
  std::string_view theirs, ours, note;
};

constexpr std::string_view kOtherWeights =
    "the noise levels are ComfyUI's, but its steps weigh the model's outputs otherwise: the video is a close "
    "relative";
constexpr Rule kRules[] = {
    {"euler", "euler", ""},
    {"lcm", "lcm",
     "the noise that is added after each step is drawn otherwise than in ComfyUI: another video"},
    {"dpmpp_2m", "dpm++", kOtherWeights},
    {"uni_pc", "unipc", kOtherWeights},
    {"uni_pc_bh2", "unipc", kOtherWeights},
};

}  // namespace

Sampling sampling_of(const Values& values, const Node& node) {
  const std::string name = values.text(node, "sampler_name");
  const auto* rule = std::ranges::find(kRules, name, &Rule::theirs);
  if (rule == std::end(kRules))
    refuse(node, "sampler_name", fmt::format("expected euler, uni_pc, dpmpp_2m or lcm, got '{}'", name));
  Sampling out{std::string(rule->ours), "comfyui", std::string(rule->note)};
  const std::string scheduler = values.text(node, "scheduler");
  if (scheduler == "simple") return out;
  // "normal" is diffusers' grid: both shift the ends of the table once more.
  const bool fractional = out.sampler == "euler" || out.sampler == "lcm";
  if (scheduler != "normal" || !fractional)
    refuse(node, "scheduler",
           fmt::format("expected simple{}, got '{}'", fractional ? " or normal" : "", scheduler));
  out.grid = "diffusers";
  return out;
}

}  // namespace tachy::workflows
