// What `generate` and `talk` say of a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "generate_options.h"

namespace tachy::cli {

// A line about the run: JSON with --json, nothing with --quiet; to standard error where the video goes to standard output.
void report(const GenerateOptions& options, const nlohmann::json& event, const std::string& text);

// A line of JSON. Names of files in it need not be UTF-8: what is not becomes U+FFFD.
std::string line_of(const nlohmann::json& json);

}  // namespace tachy::cli
