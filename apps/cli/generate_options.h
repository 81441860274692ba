// The options of `tachyscope generate`.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/tachyscope.h"
#include "command_line.h"

namespace tachy::cli {

// What the command line says of one of request_fields(), if it says anything.
using GivenField = std::variant<std::optional<std::string>, std::optional<int>, std::optional<uint64_t>,
                                std::optional<double>, std::optional<std::vector<std::string>>>;

struct GenerateOptions {
  std::vector<std::string> prompts;
  std::string prompt_file, lora_dir, model, size, output, from, save_latents, preview, profile;
  std::map<std::string, GivenField> fields;   // by name
  std::map<std::string, std::string> inputs;  // files of request_inputs(), by name; "": none
  // Of inputs that may be given twice, the second time for NAME_2: in the order given.
  std::map<std::string, std::vector<std::string>> pairs;
  std::vector<std::string> seeds;      // -1: to be drawn (seed.h)
  EngineOptions engine{.device = ""};  // device "": TACHY_DEVICE, otherwise auto
  std::string max_vram;                // "8GiB"
  std::string gpu;                     // that need not be here, for --plan
  bool no_graph = false, no_arena = false, nvtx = false;
  int crf = -1;
  std::string encode_speed;
  double state_every = 5;  // seconds
  bool stream = false, resume = false, plan = false, json = false, quiet = false;

  // Whether a field of request_fields() was given, whatever its value.
  bool gives(const std::string& field) const;
  // Overlays what was given on `base` (defaults, or the settings of --from).
  void apply(VideoRequest& base) const;
  // Moves what was given of `pairs` to the inputs. Throws where it was given more than twice.
  void settle_pairs();
};

// Whether there is an input that is the second one of `name`.
bool has_second(const std::string& name);

void register_options(CommandOptions& app, GenerateOptions& options);
// Those that name parts of a model, but for `left_out`, which the command has no use for.
void register_model_parts(CommandOptions& app, EngineOptions& engine, const char* group,
                          std::initializer_list<std::string_view> left_out = {});

// `vae_math` of the other commands that run a VAE.
Option register_vae_math(CommandOptions& app, std::string& vae_math);

// "832x480" or the original repository's "832*480".
void parse_size(const std::string& text, int& width, int& height);

// A check of an option's text: "" or what is wrong.
std::string check_seed(const std::string& text);

// Prompts of the command line and of --prompt-file (base/text_file.h; one a line; empty lines and lines that begin
// with # are skipped).
std::vector<std::string> all_prompts(const GenerateOptions& options);

}  // namespace tachy::cli
