// The settings beside an output, as JSON: clip.json beside clip.mp4, settings.json in a folder. If a file of
// that name belongs to another output, or holds no settings, it stays as it is: the name is then
// clip.mp4.json, or frames.json in a folder frames/.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace tachy::jobs {

// The place of a run's settings, chosen before its work begins: the first name that is free or has settings
// of this output.
class SettingsFile {
 public:
  // Throws io if there is no such name. `taken` has the other files that this run writes.
  explicit SettingsFile(std::filesystem::path output, std::set<std::filesystem::path> taken = {});
  const std::filesystem::path& path() const { return path_; }

  // Writes all of the settings or nothing. A file that has taken the name in the meantime keeps it.
  void write(const nlohmann::json& settings);
  // Returns the preferred name; if it is not path(), another file has it.
  std::filesystem::path first_name() const;

 private:
  enum class Place { free, ours, others };
  Place place_of(const std::filesystem::path& path);
  Place choose();  // sets path_

  bool begun_ = false;
  std::filesystem::path output_, path_;
  std::set<std::filesystem::path> taken_;
  // The contents of the files that may be replaced, as they were when the run began.
  std::map<std::filesystem::path, std::string> known_;
};

// Returns the settings as they are written beside the output: its name is added, so that a later run knows
// whose they are.
nlohmann::json settings_beside(const std::filesystem::path& output, const nlohmann::json& settings);

// Returns the settings of an output that is complete (they are written last), or null.
nlohmann::json finished_settings(const std::filesystem::path& output);

}  // namespace tachy::jobs
