// Settings that tell no path of this machine: models, parts, inputs and adapters by their names alone, as a queue keeps
// them and as a server writes them into its videos. Inputs have their hashes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "jobs/settings.h"

namespace tachy::jobs {

RunSettings without_paths(RunSettings settings);
// Does the same for the part `environment` of settings as JSON.
void remove_paths_of_environment(nlohmann::json& settings);

std::string file_name_of(const std::string& path);
// Returns the name of a file or a folder, with or without a slash at the end.
std::string folder_name_of(std::string path);
// Splits "FILE[:strength][@high|@low|@both]" into its file and the rest.
std::pair<std::string, std::string> split_lora(const std::string& text);

}  // namespace tachy::jobs
