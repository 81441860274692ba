// Defaults for what a user may leave out: a model's own settings, those of its scheduler, or those that the
// repositories' pipelines use for its kind.
#include "catalog/model_defaults.h"

#include "base/error.h"
#include "samplers/sampler.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

// The negative prompt of the original repository, which its pipelines use when the caller gives none.
constexpr const char* kOriginalNegativePrompt =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，"
    "JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体"
    "，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走";

template <class T>
void fill(std::optional<T>& target, T value) {
  if (!target) target = std::move(value);
}

}  // namespace

ImageInput detect_image_input(const ModelFiles& files, const WanConfig& c) {
  if (c.image_branch() || c.in_channels > c.out_channels) return ImageInput::channels;
  // The name that diffusers uses.
  const bool expands = files.model_index && json_bool(*files.model_index, "expand_timesteps", false);
  return expands || c.in_channels == 48 ? ImageInput::first_frame : ImageInput::none;
}

std::string model_kind(const ModelBundle& m) {
  if (m.dit.actions.present()) return "world";
  if (m.dit.pos_embed_seq_len > 0) return "first-last-frame-to-video";
  if (m.image_input == ImageInput::channels) return "image-to-video";
  return m.image_input == ImageInput::first_frame ? "text-and-image-to-video" : "text-to-video";
}

std::vector<float> preview_factors(const ModelBundle& m) {
  if (!m.files.generation_config) return {};
  const auto values = json_doubles(*m.files.generation_config, "preview_factors", 4096);
  if (static_cast<int64_t>(values.size()) != (m.vae_config.z_dim + 1) * 3) return {};
  return {values.begin(), values.end()};
}

VideoRequest default_request(const ModelBundle& m) {
  VideoRequest d;
  const bool original = m.original;
  if (m.files.generation_config) {
    const nlohmann::json& j = *m.files.generation_config;
    if (j.contains("height")) d.height = static_cast<int>(json_int(j, "height", 1, 1 << 14));
    if (j.contains("width")) d.width = static_cast<int>(json_int(j, "width", 1, 1 << 14));
    if (j.contains("num_frames")) d.frames = static_cast<int>(json_int(j, "num_frames", 1, 1 << 16));
    if (j.contains("window_frames"))
      d.window_frames = static_cast<int>(json_int(j, "window_frames", 5, 1 << 16));
    if (j.contains("fps")) d.fps = json_double(j, "fps", 16, 0.1, 1000);
    if (j.contains("num_inference_steps"))
      d.steps = static_cast<int>(json_int(j, "num_inference_steps", 1, 1000));
    if (j.contains("guidance_scale")) d.guidance = json_double(j, "guidance_scale", 5, 0, 100);
    if (j.contains("guidance_scale_2")) d.guidance_2 = json_double(j, "guidance_scale_2", 5, 0, 100);
    if (j.contains("flow_shift")) d.shift = json_double(j, "flow_shift", 5, 0.01, 100);
    if (j.contains("negative_prompt")) d.negative_prompt = json_string(j, "negative_prompt", "");
    // diffusers keeps these in the scheduler's config; distilled models need the values that they were
    // distilled with.
    if (j.contains("sampler"))
      d.sampler = std::string(to_string(
          naming("generation_config.json", [&] { return parse_sampler(json_string(j, "sampler", "")); })));
    if (j.contains("grid")) d.grid = json_string(j, "grid", "");
    if (j.contains("audio_guidance_scale"))
      d.audio_guidance = json_double(j, "audio_guidance_scale", 4, 0, 100);
    if (j.contains("color_correction")) d.color_correction = json_double(j, "color_correction", 1, 0, 1);
  }
  // From InfiniteTalk's own program, since a scheduler's config would be that of the base model.
  if (m.dit.audio_branch()) {
    fill(d.sampler, std::string("euler")), fill(d.grid, std::string("multitalk"));
    fill(d.shift, 7.0), fill(d.steps, 40), fill(d.audio_guidance, 4.0), fill(d.fps, 25.0);
  }
  if (m.files.scheduler) {
    const nlohmann::json& j = *m.files.scheduler;
    const std::string name = json_string(j, "_class_name", "UniPCMultistepScheduler");
    fill(d.sampler,
         std::string(to_string(naming("scheduler_config.json", [&] { return parse_sampler(name); }))));
    const double shift = json_double(j, "shift", 1.0, 0.01, 100);
    fill(d.shift, json_double(j, "flow_shift", shift, 0.01, 100));
  }
  const bool ti2v = m.image_input == ImageInput::first_frame, flf2v = m.dit.pos_embed_seq_len > 0;
  fill(d.sampler, std::string("unipc"));
  fill(d.grid, std::string(original ? "original" : "diffusers"));
  if (m.dit.image_branch()) d.clip_preparation = original ? "original" : "processor";
  const bool experts = m.experts() == 2, channels = m.image_input == ImageInput::channels;
  fill(d.shift, flf2v ? 16.0 : experts && !channels ? 12.0 : 5.0);
  fill(d.steps, experts || (m.dit.image_branch() && !flf2v) ? 40 : 50);
  if (experts) {  // if only the first is known, it is used for both, as in diffusers
    fill(d.guidance_2, d.guidance.value_or(channels ? 3.5 : 3.0));
    fill(d.guidance, channels ? 3.5 : 4.0);
  }
  fill(d.guidance, 5.0), fill(d.audio_guidance, 1.0);
  fill(d.height, ti2v ? 704 : 480);
  fill(d.width, ti2v ? 1280 : 832);
  fill(d.frames, ti2v ? 121 : 81);
  fill(d.fps, ti2v ? 24.0 : 16.0);
  fill(d.window_frames, 81);
  // 2.1's image-to-video models use a longer one: no shaking camera and no cuts.
  const std::string shots = flf2v ? "镜头切换，镜头晃动，" : m.dit.image_branch() ? "镜头晃动，" : "";
  fill(d.negative_prompt, original ? shots + kOriginalNegativePrompt : std::string());
  return d;
}

}  // namespace tachy
