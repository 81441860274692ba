// The settings beside an output, as JSON: clip.json beside clip.mp4, settings.json in a folder. A file of that name which is another
// output's, or no settings at all, stays as it is: then it is clip.mp4.json, and in a folder frames/ frames.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace tachy::jobs {

// The place of a run's settings, chosen before its work begins: the first name that is free, or has settings of this output.
class SettingsFile {
 public:
  // Throws io where there is none. taken: what else this run writes.
  explicit SettingsFile(std::filesystem::path output, std::set<std::filesystem::path> taken = {});
  const std::filesystem::path& path() const { return path_; }

  // Writes them, whole or not at all. Who has taken the name in the meantime keeps it.
  void write(const nlohmann::json& settings);
  // The name that is looked at first: another file has it if this is not path().
  std::filesystem::path first_name() const;

 private:
  enum class Place { free, ours, others };
  Place place_of(const std::filesystem::path& path);
  Place choose();  // sets path_

  bool begun_ = false;
  std::filesystem::path output_, path_;
  std::set<std::filesystem::path> taken_;
  std::map<std::filesystem::path, std::string>
      known_;  // what is to be replaced, as it was when the run began
};

// The settings as they stand beside the output: with its name, by which a later run knows them for its own.
nlohmann::json settings_beside(const std::filesystem::path& output, const nlohmann::json& settings);

// Those of an output that is complete (they are written last), or null.
nlohmann::json finished_settings(const std::filesystem::path& output);

}  // namespace tachy::jobs
