// The options of the server, which `tachyscope serve` and the server's own program (apps/serve) share: the one checks
// them and shows their help even where the other is not built.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/tachyscope.h"
#include "command_line.h"

namespace tachy::cli {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8190;
  std::vector<std::string> public_names;
  std::filesystem::path files;      // "": tachyscope in the user's folder of data
  std::vector<std::string> models;  // NAME=PATH
  std::filesystem::path lora_dir, keys, webhook_secret_file;
  std::string new_key, webhook, database;  // database: "": SQLite in the folder of files
  int queue = 1000, key_queue = 0, at_once = 0;
  double max_pixel_frames = 0, keep_days = 0;
  std::string keep_bytes, max_upload, max_vram;  // "20GiB"
  std::vector<std::string> allow_urls;
  bool json = false, quiet = false;
  EngineOptions engine{.device = ""};  // if "", TACHY_DEVICE decides, otherwise it is auto
};

void register_serve_options(CommandOptions& app, ServeOptions& options);

// Throws what is wrong with the options, as far as it can be told without a model.
void check_serve_options(const ServeOptions& options);

struct NamedModel {
  std::string name;
  std::filesystem::path path;
};
// Returns the models in their order, or those that ship: sprites, talker and world. Throws invalid_argument for
// something else than NAME=PATH and a name that is there twice, and not_found for a path that is not there.
std::vector<NamedModel> served_models(const ServeOptions& options);

// Returns the bytes of such a text, or `otherwise` for "". `option` begins the message about a wrong one.
uint64_t bytes_in(const std::string& option, const std::string& text, uint64_t otherwise);

}  // namespace tachy::cli
