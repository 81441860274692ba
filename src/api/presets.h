// The presets of distilled models, for front ends that list them: what `preset` of a request fills in where the request says
// nothing itself. A preset's name stands for a way of sampling; the weights (a whole model, or a LoRA on the one that it was
// distilled from) are the user's to give.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tachy {

struct PresetInfo {
  std::string name;    // as VideoRequest::preset takes it
  std::string about;   // in one line
  std::string source;  // where its numbers are from

  // This is what it sets for some kinds of models. The first one of two experts is that of high noise.
  struct Values {
    std::vector<std::string> models;  // "text-to-video models (Wan2.1-T2V)"
    std::string sampler;              // as VideoRequest::sampler takes it: a sampler, or a few-step list
    bool list = false;                // the latter, which has its own sigmas in place of grid and shift
    std::string solver;               // the sampler, or the one that the list is for: "euler"
    std::string grid;                 // as VideoRequest::grid takes it
    int steps = 0;
    double shift = 1;
    double guidance = 1;
    std::optional<double> guidance_2, audio_guidance;
    double lora_strength = 1;  // of the request's first adapter, unless that one has its own
    std::optional<double> lora_strength_2;
    int block = 0, block_window = 0;  // latent frames, of models that make a video block by block; 0: none
    // Its steps come to this: a timestep each (0 to 1000), and the sigmas with the final 0.
    std::vector<double> timesteps;
    std::vector<float> sigmas;
    int high_noise_steps =
        -1;  // so many of the steps are the first expert's; negative: the model's boundary decides
  };
  std::vector<Values> sets;
};

// All of them, in the order in which they are listed.
std::vector<PresetInfo> list_presets();

}  // namespace tachy
