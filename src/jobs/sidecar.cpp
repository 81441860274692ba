#include "jobs/sidecar.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/json_text.h"
#include "jobs/output_name.h"
#include "media/files.h"
#include "media/metadata.h"

namespace tachy::jobs {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr uint64_t kMostBytes = 8u << 20;
constexpr const char* kOutput = "output";  // the key with the name of the output that the settings belong to
constexpr const char* kEndings[] = {".mp4", ".webm", ".gif", ".png"};

std::vector<fs::path> candidates(const fs::path& output) {
  if (is_folder(output)) {
    std::error_code ec;
    const fs::path name = fs::weakly_canonical(output.parent_path(), ec).filename();
    return {output / "settings.json", output / (name.empty() ? "frames" : name.string() + ".json")};
  }
  fs::path first = output, second = output;
  first.replace_extension(".json"), second += ".json";
  return {first, second};
}

// Returns the text of a file; "" for a folder, or a file that may not be read.
std::string text_of(const fs::path& path) {
  try {
    const std::vector<uint8_t> bytes = read_file_bytes(path, kMostBytes);
    return {bytes.begin(), bytes.end()};
  } catch (const Error&) {
    return "";
  }
}

// Returns the settings in a text, or null.
json settings_of(const std::string& text) {
  json j = parsed_or_discarded(text);
  return j.is_object() && j.contains("prompt") && j.contains("tachyscope") ? j : json(nullptr);
}

json settings_inside(const fs::path& video) {
  try {
    return parsed_or_discarded(read_comment(video));
  } catch (const Error&) {
    return nullptr;
  }
}

bool are_of(json settings, const fs::path& output) {
  if (is_folder(output)) return true;  // the settings lie inside the folder
  const auto name = settings.find(kOutput);
  const bool named = name != settings.end();
  std::error_code ec;
  if (named && *name == own_name(output)) return true;
  if (named && name->is_string() && fs::exists(output.parent_path() / name->get<std::string>(), ec))
    return false;
  settings.erase(kOutput);
  // The two files were renamed together, or were written by a version that did not note the output's name.
  if (settings == settings_inside(output)) return true;
  if (named) return false;
  for (const char* ending : kEndings) {
    fs::path other = output;
    other.replace_extension(ending);
    if (other != output && settings == settings_inside(other)) return false;
  }
  return true;
}

}  // namespace

SettingsFile::SettingsFile(fs::path output, std::set<fs::path> taken)
    : output_(std::move(output)), taken_(std::move(taken)) {
  choose();
  begun_ = true;
}

fs::path SettingsFile::first_name() const { return candidates(output_).front(); }

SettingsFile::Place SettingsFile::place_of(const fs::path& path) {
  std::error_code ec;
  if (taken_.contains(path)) return Place::others;
  if (!fs::exists(fs::symlink_status(path, ec))) return Place::free;
  check(!fs::is_directory(path, ec), ErrorCode::io, "{}: cannot write the settings of {}: this is a folder",
        path.string(), output_.string());
  const std::string text = text_of(path);
  if (begun_) {  // the old video, which proved whose settings these are, has been replaced by now
    const auto known = known_.find(path);
    return known != known_.end() && known->second == text ? Place::ours : Place::others;
  }
  json settings = settings_of(text);
  if (settings.is_null() || !are_of(std::move(settings), output_)) return Place::others;
  known_[path] = text;
  return Place::ours;
}

SettingsFile::Place SettingsFile::choose() {
  const std::vector<fs::path> names = candidates(output_);
  for (const fs::path& path : names)
    if (const Place place = place_of(path); place != Place::others) return path_ = path, place;
  fail(ErrorCode::io,
       "{}: there is no name left for its settings: {} and {} exist and are not settings of this output; "
       "move one of them away, or name another output",
       output_.string(), names[0].string(), names[1].string());
}

void SettingsFile::write(const json& settings) {
  // Names of files need not be UTF-8.
  const std::string text = json_text(settings_beside(output_, settings), 2) + "\n";
  for (;;) {
    const Place place = choose();
    PartFile file(path_);
    file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    if (place == Place::ours) file.publish();
    if (place == Place::ours || file.publish_new()) return sync_folder(folder_of(path_));
  }
}

json settings_beside(const fs::path& output, const json& settings) {
  json out = settings;
  if (!is_folder(output)) out[kOutput] = own_name(output);
  return out;
}

json finished_settings(const fs::path& output) {
  std::error_code ec;
  const bool pattern = output.filename().string().find('%') != std::string::npos;
  if (!pattern && !fs::exists(output, ec)) return nullptr;
  for (const fs::path& path : candidates(output)) {
    json settings = settings_of(text_of(path));
    if (settings.is_null() || !are_of(settings, output)) continue;
    settings.erase(kOutput);
    return settings;
  }
  return nullptr;
}

}  // namespace tachy::jobs
