// Defaults for everything that a user may leave out: the model's own settings, its scheduler's, or its
// family's.
#include "catalog/model_defaults.h"

#include "base/error.h"
#include "samplers/sampler.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

// The original repository's negative prompt, which its pipelines use if the caller gives none.
constexpr const char* kOriginalNegativePrompt =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，"
    "JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体"
    "，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走";

template <class T>
void fill(std::optional<T>& target, T value) {
  if (!target) target = std::move(value);
}

void take_own_settings(const nlohmann::json& j, VideoRequest& d) {
  if (j.contains("height")) d.height = static_cast<int>(json_int(j, "height", 1, 1 << 14));
  if (j.contains("width")) d.width = static_cast<int>(json_int(j, "width", 1, 1 << 14));
  if (j.contains("num_frames")) d.frames = static_cast<int>(json_int(j, "num_frames", 1, 1 << 16));
  if (j.contains("window_frames"))
    d.window_frames = static_cast<int>(json_int(j, "window_frames", 5, 1 << 16));
  if (j.contains("fps")) d.fps = json_double(j, "fps", 16, 0.1, 240);
  if (j.contains("num_inference_steps"))
    d.steps = static_cast<int>(json_int(j, "num_inference_steps", 1, 1000));
  if (j.contains("guidance_scale")) d.guidance = json_double(j, "guidance_scale", 5, 0, 100);
  if (j.contains("guidance_scale_2")) d.guidance_2 = json_double(j, "guidance_scale_2", 5, 0, 100);
  if (j.contains("flow_shift")) d.shift = json_double(j, "flow_shift", 5, 0.01, 100);
  if (j.contains("negative_prompt")) d.negative_prompt = json_string(j, "negative_prompt", "");
  // diffusers keeps these values in the scheduler's config. Distilled models need the values with which they
  // were distilled.
  if (j.contains("sampler"))
    d.sampler = std::string(to_string(
        naming("generation_config.json", [&] { return parse_sampler(json_string(j, "sampler", "")); })));
  if (j.contains("grid")) d.grid = json_string(j, "grid", "");
  if (j.contains("audio_guidance_scale"))
    d.audio_guidance = json_double(j, "audio_guidance_scale", 4, 0, 100);
  if (j.contains("color_correction")) d.color_correction = json_double(j, "color_correction", 1, 0, 1);
}

void take_scheduler(const nlohmann::json& j, VideoRequest& d) {
  const std::string name = json_string(j, "_class_name", "UniPCMultistepScheduler");
  fill(d.sampler,
       std::string(to_string(naming("scheduler_config.json", [&] { return parse_sampler(name); }))));
  const double shift = json_double(j, "shift", 1.0, 0.01, 100);
  fill(d.shift, json_double(j, "flow_shift", shift, 0.01, 100));
}

void take_family(const ModelBundle& m, VideoRequest& d) {
  const FamilyDefaults& f = m.family->defaults;
  const char* const layout = m.original ? "original" : "diffusers";
  fill(d.sampler, std::string(f.sampler)), fill(d.grid, std::string(f.grid ? f.grid : layout));
  fill(d.shift, f.shift), fill(d.steps, f.steps);
  // As in diffusers, the scale of the first expert is used for both if the second one's is unknown.
  if (m.experts() == 2) fill(d.guidance_2, d.guidance.value_or(f.guidance_2));
  fill(d.guidance, f.guidance), fill(d.audio_guidance, f.audio_guidance);
  fill(d.height, f.height), fill(d.width, f.width), fill(d.frames, f.frames), fill(d.fps, f.fps);
  fill(d.window_frames, 81);
  fill(d.negative_prompt, m.original ? std::string(f.shots) + kOriginalNegativePrompt : std::string());
}

}  // namespace

std::vector<float> preview_factors(const ModelBundle& m) {
  if (!m.files.generation_config) return {};
  const auto values = json_doubles(*m.files.generation_config, "preview_factors", 4096);
  if (static_cast<int64_t>(values.size()) != (m.vae_config.z_dim + 1) * 3) return {};
  return {values.begin(), values.end()};
}

StepCacheValues own_step_caches(const ModelBundle& m) {
  StepCacheValues out;
  if (!m.files.generation_config) return out;
  const nlohmann::json& j = *m.files.generation_config;
  out.coefficients = json_doubles(j, "teacache_coefficients", 16);
  out.teacache_threshold = json_double(j, "teacache_threshold", 0.1, 0.001, 1);
  out.ratios = json_doubles(j, "magcache_ratios", 2000);
  check(out.ratios.size() % 2 == 0, ErrorCode::corrupt,
        "generation_config.json: magcache_ratios has {} numbers, expected two for each step",
        out.ratios.size());
  out.magcache_threshold = json_double(j, "magcache_threshold", 0.06, 0.001, 1);
  out.retention = json_double(j, "magcache_retention", out.retention, 0, 1);
  out.most = static_cast<int>(json_int(j, "magcache_steps", out.most, 1, 1000));
  return out;
}

VideoRequest default_request(const ModelBundle& m) {
  VideoRequest d;
  if (m.files.generation_config) take_own_settings(*m.files.generation_config, d);
  if (m.family->defaults.over_scheduler) take_family(m, d);
  if (m.files.scheduler) take_scheduler(*m.files.scheduler, d);
  take_family(m, d);
  if (seen_pictures(m.dit) > 0) d.clip_preparation = m.original ? "original" : "processor";
  return d;
}

}  // namespace tachy
