// The options of `tachyscope world`, and the common beginning of its two uses: a recorded script that becomes
// a file, and a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/world.h"
#include "command_line.h"
#include "serve/page_server.h"

namespace tachy::cli {

struct WorldCommandOptions {
  std::string prompt, model, image, image_embeds, actions, output, size,
      level = "safe", encode_speed, max_vram, profile, token, vae_math = "auto";
  std::optional<std::string> host;
  std::optional<int> port;
  std::optional<std::string> dtype;
  std::vector<std::string> without;
  std::optional<int> steps, window, frames;
  std::optional<double> shift, seconds, fps;
  uint64_t seed = 0;
  int crf = -1;
  EngineOptions engine{.device = ""};  // if "", TACHY_DEVICE decides, otherwise it is auto
  bool stream = false, no_graph = false, no_arena = false, nvtx = false, json = false, quiet = false;
};

// `seed` is a number, or -1.
void register_world_options(CommandOptions& app, WorldCommandOptions& options, std::string& seed);

// Opens the model on its device; if no model is named, the one that ships.
Engine open_world_engine(const WorldCommandOptions& options);
// Opens and plans a world on the engine. Worlds of one engine share the model's weights in memory.
World open_world(const Engine& engine, const WorldCommandOptions& options);
// Returns the start of a session, with its files read; throws if no session could begin with it. `of_page`
// says that a visitor will supply the picture or the prompt if they are missing.
WorldStart world_start(const WorldCommandOptions& options, World& world, bool of_page = false);

// Returns the page's options; throws if something is wrong with them.
serve::PageOptions page_options(const WorldCommandOptions& options);
// Serves the page until ctrl-C; used without --output.
int run_world_page(const WorldCommandOptions& options);
// Prints a line of text or of JSON on standard output, or on standard error if the video goes to standard
// output.
void report_world(const WorldCommandOptions& options, const nlohmann::json& event, const std::string& text);

}  // namespace tachy::cli
