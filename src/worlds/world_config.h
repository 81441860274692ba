// The settings with which a world is made. These are the published values, for Matrix-Game 2 by kind
// (universal, gta, templerun), for Self-Forcing and for CausVid; values of "world" in the model's
// generation_config.json replace them.
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
  std::vector<std::string> keys;  // meanings of the keyboard's values
  int rest_key = -1;              // the key that is 1 while none is held; -1: there is none
  bool mouse = false;
  double mouse_step = 0;                   // the value that an arrow key stands for
  std::vector<double> timesteps;           // 0 to 1000, before the shift; empty: `few_step` names the list
  std::string few_step;                    // a list of samplers/few_step.cpp
  SamplerKind sampler = SamplerKind::lcm;  // for `timesteps`: lcm, which draws noise between steps, or euler
  double shift = 5;
  int64_t block = 3, first_block = 3;  // latent frames
  // The latent frames that a block sees, including its own, and how many of the first frames are kept among
  // them.
  int64_t window = 21, sinks = 0;

  bool steered() const { return !keys.empty() || mouse; }
};

struct WorldChoices {
  int width = 0, height = 0;  // 0: the model's own
  std::optional<int> steps, window;
  std::optional<double> shift;
};

// Says whether a model's files show that it makes videos block by block: it follows actions, or its config
// has a window or a world.
bool made_block_by_block(const ModelBundle& model);

// Throws corrupt, naming the file and the field, and invalid_argument, naming `width`, `height`, `steps`,
// `window` or `shift`.
WorldConfig world_config(const ModelBundle& model, const WorldChoices& choices);

// Returns the list with which a block is denoised: all of it, or `steps` entries at equal distances,
// beginning with the first one.
SamplerConfig world_sampler(const WorldConfig& config, const WorldChoices& choices);

}  // namespace tachy
