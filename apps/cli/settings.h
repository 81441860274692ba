// The settings of a run as JSON: embedded in the output, written beside it, read back by --from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/tachyscope.h"

namespace tachy::cli {

struct RunSettings {
  VideoRequest request;
  std::string model;         // folder, or "" for the one that ships
  std::string init_latents;  // file, or ""
};

nlohmann::json to_json(const RunSettings& settings);

// From a .json beside an output, or from the video itself. Throws corrupt or invalid_argument naming the key.
RunSettings read_settings(const std::string& path);

}  // namespace tachy::cli
