#include "resolve/apply_preset.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace tachy {
namespace {

const PresetRow* row_for(const Preset& preset, ModelFamily family) {
  for (const PresetRow& row : preset.rows)
    if (std::find(row.fits.begin(), row.fits.end(), family) != row.fits.end()) return &row;
  return nullptr;
}

[[noreturn]] void refuse(const Preset& preset, ModelFamily family) {
  std::vector<std::string_view> meant, others;
  for (const PresetRow& row : preset.rows)
    for (const ModelFamily fit : row.fits) meant.push_back(family_text(fit));
  for (const Preset& other : presets())
    if (row_for(other, family)) others.emplace_back(other.name);
  fail(ErrorCode::invalid_argument, "`preset`: {} is for {}; this is one of the {}, for which {}",
       preset.name, fmt::join(meant, ", "), family_text(family),
       others.empty() ? "there is no preset" : fmt::format("{} would do", text_of(others)));
}

template <class T, class V>
void fill(std::optional<T>& member, const V& value) {
  if (!member) member = value;
}

}  // namespace

const PresetRow* preset_row(const ModelBundle& model, const VideoRequest& r) {
  if (!r.preset) return nullptr;
  check_choice("preset", *r.preset, preset_names());
  const Preset& preset =
      *std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return *r.preset == p.name; });
  const ModelFamily family = model.family->preset_family(r.last_image != nullptr);
  const PresetRow* row = row_for(preset, family);
  if (!row) refuse(preset, family);
  return row;
}

void apply_preset(const ModelBundle& model, VideoRequest& r) {
  const PresetRow* row = preset_row(model, r);
  if (!row) return;
  fill(r.sampler, row->sampler), fill(r.steps, row->steps), fill(r.shift, row->shift);
  fill(r.guidance, row->guidance);
  if (row->grid) fill(r.grid, row->grid);
  if (row->guidance_2) fill(r.guidance_2, *row->guidance_2);
  if (row->audio_guidance) fill(r.audio_guidance, *row->audio_guidance);
  if (r.block == 0 && r.block_window == 0) r.block = row->block, r.block_window = row->block_window;
}

}  // namespace tachy
