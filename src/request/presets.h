// What a distilled model wants to be run with, by the name of its distillation: `preset` of a request. A row
// fills what the request leaves out; what the request says wins over it, and it wins over the model's
// defaults. The names stand for ways of sampling: the weights (a whole model, or a LoRA on the model that it
// was distilled from) are the user's to give.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/field.h"
#include "request/request.h"
#include "request/sampler_config.h"
#include "samplers/sampler.h"

namespace tachy {

// What presets tell models apart by.
enum class ModelFamily {
  text,                  // Wan2.1-T2V
  image,                 // Wan2.1-I2V and models of its kind, with one transformer
  two_pictures,          // Wan2.1-FLF2V
  first_frame,           // Wan2.2-TI2V-5B
  text_experts,          // Wan2.2-T2V-A14B
  image_experts,         // Wan2.2-I2V-A14B
  two_pictures_experts,  // the same with a last picture too
  talking,               // Wan2.1-I2V with InfiniteTalk's audio branch
};
std::string_view family_text(ModelFamily family);  // "text-to-video models (Wan2.1-T2V)"

// What one preset sets for some families. Of two experts the first is the high-noise one.
struct PresetRow {
  std::vector<ModelFamily> fits;
  const char* sampler;  // a sampler, or a few-step list
  const char* grid;     // whose sigmas, where the sampler is no list
  int steps;
  double shift;  // 1 where the list has sigmas of its own
  double guidance;
  std::optional<double> guidance_2;
  // What its card, its config or its merging script adds the LoRA with: the strength of a request's first
  // adapter, unless that one has its own.
  double lora_strength;
  std::optional<double> lora_strength_2;
  std::optional<double> audio_guidance = {};  // of talking photos
  int block = 0, block_window = 0;            // of models that make a video block by block
};

struct Preset {
  const char* name;
  const char* about;
  const char* source;  // where its numbers are from
  std::vector<PresetRow> rows;
};

const std::vector<Preset>& presets();
Choices preset_names();

// What the samplers make of a row.
SamplerConfig sampler_config(const PresetRow& row);

}  // namespace tachy
