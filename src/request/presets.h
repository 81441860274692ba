// The settings that a distilled model should be run with, under the name of its distillation: `preset` of a
// request. A row fills in fields that the request leaves out; the request's own fields take precedence over
// it, and it takes precedence over the model's defaults. The names stand for ways of sampling: the user
// supplies the weights (a whole model, or a LoRA for the model that was distilled).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/field.h"
#include "request/request.h"
#include "request/sampler_config.h"
#include "samplers/sampler.h"

namespace tachy {

// The kinds of models that presets distinguish.
enum class ModelFamily {
  text,                  // Wan2.1-T2V
  image,                 // Wan2.1-I2V and models of its kind, with one transformer
  two_pictures,          // Wan2.1-FLF2V
  first_frame,           // Wan2.2-TI2V-5B
  text_experts,          // Wan2.2-T2V-A14B
  image_experts,         // Wan2.2-I2V-A14B
  two_pictures_experts,  // Wan2.2-I2V-A14B with a last picture, too
  talking,               // Wan2.1-I2V with InfiniteTalk's audio branch
};
std::string_view family_text(ModelFamily family);  // "text-to-video models (Wan2.1-T2V)"

// The settings of a preset for some families. If there are two experts, the first is the high-noise one.
struct PresetRow {
  std::vector<ModelFamily> fits;
  const char* sampler;  // a sampler, or a few-step list
  const char* grid;     // the grid that gives the sigmas, if the sampler is not a list
  int steps;
  double shift;  // 1 if the list has sigmas of its own
  double guidance;
  std::optional<double> guidance_2;
  // The strength with which the card, the config or the merging script adds the LoRA. It applies to a
  // request's first adapter, unless that one has its own.
  double lora_strength;
  std::optional<double> lora_strength_2;
  std::optional<double> audio_guidance = {};  // for talking photos
  int block = 0, block_window = 0;            // for models that make a video block by block
};

struct Preset {
  const char* name;
  const char* about;
  const char* source;  // where its numbers come from
  std::vector<PresetRow> rows;
};

const std::vector<Preset>& presets();
Choices preset_names();

// Returns the configuration of the sampler that a row stands for.
SamplerConfig sampler_config(const PresetRow& row);

}  // namespace tachy
