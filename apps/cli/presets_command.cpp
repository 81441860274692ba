// `tachyscope presets` shows what `generate --preset NAME` sets, by name and kind of model.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "api/presets.h"
#include "base/json_text.h"
#include "commands.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

json values_json(const PresetInfo::Values& row) {
  json out = {{"models", row.models},
              {"sampler", row.sampler},
              {"num_inference_steps", row.steps},
              {"guidance_scale", row.guidance},
              {"lora_strength", row.lora_strength},
              {"timesteps", row.timesteps},
              {"sigmas", row.sigmas}};
  if (!row.list) out["grid"] = row.grid, out["flow_shift"] = row.shift;
  if (row.audio_guidance) out["audio_guidance_scale"] = *row.audio_guidance;
  if (row.guidance_2) out["guidance_scale_2"] = *row.guidance_2;
  if (row.lora_strength_2) out["lora_strength_2"] = *row.lora_strength_2;
  if (row.block > 0) out["block"] = row.block, out["block_window"] = row.block_window;
  if (row.high_noise_steps >= 0) out["high_noise_steps"] = row.high_noise_steps;
  return out;
}

json to_json(const PresetInfo& preset) {
  json rows = json::array();
  for (const PresetInfo::Values& row : preset.sets) rows.push_back(values_json(row));
  return {{"name", preset.name}, {"about", preset.about}, {"source", preset.source}, {"sets", rows}};
}

// Writes numbers with at most 4 digits after the decimal point: 937.5, 833.3333.
std::string short_numbers(const auto& values) {
  std::vector<std::string> out;
  for (const auto value : values) out.push_back(fmt::format("{}", std::round(double{value} * 1e4) / 1e4));
  return fmt::format("{}", fmt::join(out, " "));
}

// Shows the values of both experts if there are two.
std::string pair(double first, const std::optional<double>& second) {
  return second ? fmt::format("{:g} and {:g}", first, *second) : fmt::format("{:g}", first);
}

void print(const PresetInfo& preset) {
  fmt::print("{:<12}{}\n", preset.name, preset.about);
  for (const PresetInfo::Values& row : preset.sets) {
    fmt::print("  for       {}\n", fmt::join(row.models, ",\n            "));
    fmt::print("  sets      {}, guidance {}{}{}\n",
               row.list ? fmt::format("the list {} ({}), {} steps", row.sampler, row.solver, row.steps)
                        : fmt::format("{}, {} steps, shift {:g}", row.sampler, row.steps, row.shift),
               pair(row.guidance, row.guidance_2),
               row.audio_guidance ? fmt::format(" and of speech {:g}", *row.audio_guidance) : "",
               row.high_noise_steps >= 0
                   ? fmt::format(", {} steps of the high-noise expert", row.high_noise_steps)
                   : "");
    if (row.block > 0)
      fmt::print("  blocks    of {} latent frames, which see {}\n", row.block, row.block_window);
    fmt::print("  LoRA      strength {}\n", pair(row.lora_strength, row.lora_strength_2));
    fmt::print("  timesteps {}\n  sigmas    {}\n", short_numbers(row.timesteps), short_numbers(row.sigmas));
  }
  fmt::print("  from      {}\n\n", preset.source);
}

}  // namespace

Command add_presets(CommandLine& line) {
  CommandOptions sub = line.add_command("presets", "list what each --preset of generate sets");
  auto as_json = std::make_shared<bool>(false);
  sub.add_flag("--json", *as_json, "print JSON");
  sub.footer(
      "Options on the command line win over a preset, and a preset wins over the model's defaults. Where\n"
      "there are two numbers, the first is for the high-noise expert. The strength of a LoRA is what its\n"
      "model card recommends; a preset does not load one.");
  return [as_json] {
    json all = json::array();
    for (const PresetInfo& preset : list_presets()) {
      if (*as_json)
        all.push_back(to_json(preset));
      else
        print(preset);
    }
    if (*as_json) fmt::print("{}\n", json_text(all, 2));
    return 0;
  };
}

}  // namespace tachy::cli
