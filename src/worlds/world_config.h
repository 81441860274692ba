// What a world is made with: Matrix-Game 2's published values by kind (universal, gta, templerun), Self-Forcing's and
// CausVid's, or what "world" of the model's generation_config.json says in their place.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/model_bundle.h"
#include "samplers/sampler.h"

namespace tachy {

struct WorldConfig {
  std::string kind;
  int width = 0, height = 0;
  double fps = 0;
  std::vector<std::string> keys;  // what each value of the keyboard means
  int rest_key = -1;              // the key that is 1 while none is held; -1: none
  bool mouse = false;
  double mouse_step = 0;                   // what holding an arrow key amounts to
  std::vector<double> timesteps;           // 0 to 1000, before the shift; none: `few_step`'s
  std::string few_step;                    // a list of samplers/few_step.cpp
  SamplerKind sampler = SamplerKind::lcm;  // of timesteps: lcm, which draws noise between steps, or euler
  double shift = 5;
  int64_t block = 3, first_block = 3;  // latent frames
  int64_t window = 21, sinks = 0;      // of them, the block's own among them; the first ones, which are kept

  bool steered() const { return !keys.empty() || mouse; }
};

struct WorldChoices {
  int width = 0, height = 0;  // 0: the model's own
  std::optional<int> steps, window;
  std::optional<double> shift;
};

// Whether its files say that a model makes videos block by block: it follows actions, or its config has a window or a world.
bool made_block_by_block(const ModelBundle& model);

// Throws corrupt, naming the file and the field, and invalid_argument, naming `width`, `height`, `steps`, `window`, `shift`.
WorldConfig world_config(const ModelBundle& model, const WorldChoices& choices);

// The list that a block is denoised with: all of it, or `steps` of it at equal distances, the first one among them.
SamplerConfig world_sampler(const WorldConfig& config, const WorldChoices& choices);

}  // namespace tachy
