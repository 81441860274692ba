// The options of `tachyscope generate`, with peers' spellings as aliases.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/tachyscope.h"
#include "command_line.h"

namespace tachy::cli {

struct GenerateOptions {
  std::vector<std::string> prompts;
  std::string prompt_file, model, size, output, from, init_latents, save_latents, preview, profile;
  std::string image, last_image, image_embeds;
  std::optional<std::string> image_fit, negative_prompt, sampler, grid, sinusoid, rng, level, dtype, residual;
  std::optional<int> width, height, frames, steps, max_text_tokens, rng_multiprocessors;
  std::optional<double> fps, guidance, guidance_2, shift, step_cache;
  std::vector<uint64_t> seeds;
  std::string device;  // "": TACHY_DEVICE, otherwise auto
  int threads = 0, crf = -1;
  std::string encode_speed;
  std::string weights = "auto";
  std::string max_vram;    // "8GiB"
  std::string text_cache;  // a folder
  double state_every = 5;  // seconds
  bool no_graph = false, verify_upload = false;
  bool resume = false, plan = false, json = false, quiet = false;

  // Overlays what was given on `base` (defaults, or the settings of --from).
  void apply(VideoRequest& base) const;
};

void register_options(CommandOptions& app, GenerateOptions& options);

// A check of an option's text: "" or what is wrong.
std::string check_seed(const std::string& text);

// Prompts of the command line and of --prompt-file (one a
// line; empty lines and lines that begin with # are skipped).
std::vector<std::string> all_prompts(const GenerateOptions& options);

}  // namespace tachy::cli
