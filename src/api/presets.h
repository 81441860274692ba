// The presets of distilled models, for front ends that list them. The `preset` of a request fills in fields
// that the request leaves out. A preset's name stands for a way of sampling; the user supplies the weights (a
// whole model, or a LoRA for the model that was distilled).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tachy {

struct PresetInfo {
  std::string name;    // as in VideoRequest::preset
  std::string about;   // a description in one line
  std::string source;  // where its numbers come from

  // The values that it sets for some kinds of models. In a model with two experts, the first is the
  // high-noise one.
  struct Values {
    std::vector<std::string> models;  // "text-to-video models (Wan2.1-T2V)"
    std::string sampler;              // as in VideoRequest::sampler: a sampler, or a few-step list
    bool list = false;   // true for a few-step list, which has its own sigmas in place of grid and shift
    std::string solver;  // the sampler, or the one that the list is meant for: "euler"
    std::string grid;    // as in VideoRequest::grid
    int steps = 0;
    double shift = 1;
    double guidance = 1;
    std::optional<double> guidance_2, audio_guidance;
    double lora_strength = 1;  // for the request's first adapter, unless that one states its own
    std::optional<double> lora_strength_2;
    // Sizes in latent frames, for models that make a video block by block; 0 means none.
    int block = 0, block_window = 0;
    // The timesteps (0 to 1000, one for each step) and the sigmas, with the final 0, that follow from these
    // values.
    std::vector<double> timesteps;
    std::vector<float> sigmas;
    // How many steps the first expert makes; negative: the model's boundary decides.
    int high_noise_steps = -1;
  };
  std::vector<Values> sets;
};

// Lists all presets, in the order in which they are shown.
std::vector<PresetInfo> list_presets();

}  // namespace tachy
