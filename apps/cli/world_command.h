// The options of `tachyscope world`, and what both of its ways begin with: a recorded script to a file, and a page.
#pragma once

#include <optional>
#include <string>

#include "api/world.h"

namespace tachy::cli {

struct WorldCommandOptions {
  std::string prompt, model, image, image_embeds, actions, output, size, level = "safe", encode_speed,
                                                                         max_vram, profile;
  std::optional<std::string> dtype;
  std::optional<int> steps, window, frames;
  std::optional<double> shift, seconds, fps;
  uint64_t seed = 0;
  int crf = -1;
  EngineOptions engine{.device = ""};  // device "": TACHY_DEVICE, otherwise auto
  bool stream = false, no_graph = false, json = false, quiet = false;
};

// The model, opened and planned; without a name the one that ships. frames: of the longest session; 0: no end.
World open_world(const WorldCommandOptions& options, int64_t frames);
// What a session begins with, its files read; checked against what the world takes.
WorldStart world_start(const WorldCommandOptions& options, const WorldInfo& info);

}  // namespace tachy::cli
