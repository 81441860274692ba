#include "jobs/settings_names.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tachy::jobs {

std::string file_name_of(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string folder_name_of(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return file_name_of(path);
}

std::pair<std::string, std::string> split_lora(const std::string& text) {
  size_t end = text.size();
  for (const char* expert : {"@high", "@low", "@both"})
    if (text.ends_with(expert)) end = text.size() - std::string_view(expert).size();
  const size_t colon = text.substr(0, end).find_last_of(':');
  const bool strength =
      colon != text.npos && colon + 1 < end &&
      text.substr(colon + 1, end - colon - 1).find_first_not_of("+-.0123456789eE") == text.npos;
  if (strength) end = colon;
  return {text.substr(0, end), text.substr(end)};
}

RunSettings without_paths(RunSettings settings) {
  settings.model = folder_name_of(settings.model);
  for (auto& [part, path] : settings.parts) path = folder_name_of(path);
  for (auto& [name, file] : settings.inputs) file.path = file_name_of(file.path);
  for (std::string& lora : settings.request.loras) {
    const auto [file, rest] = split_lora(lora);
    lora = folder_name_of(file) + rest;
  }
  return settings;
}

void remove_paths_of_environment(nlohmann::json& settings) {
  const auto environment = settings.find("environment");
  if (environment == settings.end()) return;
  for (auto& value : *environment) value = folder_name_of(value.get<std::string>());
}

}  // namespace tachy::jobs
