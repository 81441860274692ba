// What `generate` and `talk` say of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "generate_options.h"

namespace tachy::cli {

// A line about the run: JSON with --json, nothing with --quiet; to standard error where the video goes to standard output.
void report(const GenerateOptions& options, const nlohmann::json& event, const std::string& text);

}  // namespace tachy::cli
