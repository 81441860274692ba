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

// The value that the command line gives for one of request_fields(), if it gives one.
using GivenField = std::variant<std::optional<std::string>, std::optional<int>, std::optional<uint64_t>,
                                std::optional<double>, std::optional<std::vector<std::string>>>;

struct GenerateOptions {
  std::vector<std::string> prompts;
  std::string prompt_file, lora_dir, model, size, output, from, save_latents, preview, profile;
  std::map<std::string, GivenField> fields;   // by name
  std::map<std::string, std::string> inputs;  // files of request_inputs(), by name; "": no file
  // Values for inputs that may be given several times, in the order given; the second one is for NAME_2.
  std::map<std::string, std::vector<std::string>> pairs;
  std::vector<std::string> seeds;      // -1: to be drawn (seed.h)
  EngineOptions engine{.device = ""};  // if "", TACHY_DEVICE decides, otherwise it is auto
  std::string max_vram;                // "8GiB"
  std::string gpu;                     // a GPU for --plan, which need not be here
  bool no_graph = false, no_arena = false, nvtx = false;
  int crf = -1;
  std::string encode_speed;
  double state_every = 5;    // seconds
  bool distributed = false;  // this process is one of several that make each video together
  bool stream = false, resume = false, plan = false, json = false, quiet = false;

  // Says whether a field of request_fields() was given, whatever its value.
  bool gives(const std::string& field) const;
  // Overlays the given options on `base` (defaults, or the settings of --from).
  void apply(VideoRequest& base) const;
  // Moves the values in `pairs` to the inputs. Throws if one was given more than twice.
  void settle_pairs();
};

// Says whether there is an input NAME_2 for this name.
bool has_second(const std::string& name);

void register_options(CommandOptions& app, GenerateOptions& options);
// Registers the options that name parts of a model, except for `left_out`, which the command does not use.
void register_model_parts(CommandOptions& app, EngineOptions& engine, const char* group,
                          std::initializer_list<std::string_view> left_out = {});

// Registers `vae_math` for the other commands that run a VAE.
Option register_vae_math(CommandOptions& app, std::string& vae_math);

// Reads "832x480", or "832*480" as in the original repository.
void parse_size(const std::string& text, int& width, int& height);

// Checks an option's text: returns "" or what is wrong.
std::string check_seed(const std::string& text);

// Returns the prompts of the command line and of --prompt-file (base/text_file.h; one per line; empty lines
// and lines that begin with # are skipped).
std::vector<std::string> all_prompts(const GenerateOptions& options);

}  // namespace tachy::cli
