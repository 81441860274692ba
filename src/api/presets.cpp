#include "api/presets.h"

#include "request/presets.h"

namespace tachy {
namespace {

PresetInfo::Values values_of(const PresetRow& row) {
  const SamplerConfig config = sampler_config(row);
  Schedule schedule = make_schedule(config);
  PresetInfo::Values out{.models = {},
                         .sampler = row.sampler,
                         .list = find_few_step_list(row.sampler) != nullptr,
                         .solver = std::string(to_string(config.kind)),
                         .grid = row.grid ? row.grid : "",
                         .steps = row.steps,
                         .shift = row.shift,
                         .guidance = row.guidance,
                         .guidance_2 = row.guidance_2,
                         .audio_guidance = row.audio_guidance,
                         .lora_strength = row.lora_strength,
                         .lora_strength_2 = row.lora_strength_2,
                         .block = row.block,
                         .block_window = row.block_window,
                         .timesteps = std::move(schedule.timesteps),
                         .sigmas = std::move(schedule.sigmas),
                         .high_noise_steps = schedule.high_noise_steps};
  for (const ModelFamily family : row.fits) out.models.emplace_back(family_text(family));
  return out;
}

}  // namespace

std::vector<PresetInfo> list_presets() {
  std::vector<PresetInfo> out;
  for (const Preset& preset : presets()) {
    PresetInfo info{.name = preset.name, .about = preset.about, .source = preset.source, .sets = {}};
    for (const PresetRow& row : preset.rows) info.sets.push_back(values_of(row));
    out.push_back(std::move(info));
  }
  return out;
}

}  // namespace tachy
