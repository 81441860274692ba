// The reports of `generate` and `talk` about a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "generate_options.h"

namespace tachy::cli {

// Prints a line about the run: JSON with --json, nothing with --quiet; on standard error if the video goes to
// standard output.
void report(const GenerateOptions& options, const nlohmann::json& event, const std::string& text);

}  // namespace tachy::cli
