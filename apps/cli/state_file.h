// The state of a run in OUTPUT.resume, for --resume: written beside the output after finished steps, at most
// every few seconds and never for more than a twentieth of the time; gone when the output is complete.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/tachyscope.h"

namespace tachy::cli {

class StateFile {
 public:
  // model: the fingerprint, asked for when it is needed.
  StateFile(const std::filesystem::path& output, const nlohmann::json& settings, double every_seconds,
            std::function<std::string()> model);

  static std::filesystem::path path_of(const std::filesystem::path& output);
  // The output that a state file belongs to.
  static std::filesystem::path output_of(const std::filesystem::path& state_file);

  const std::filesystem::path& path() const { return path_; }
  bool exists() const;

  // What an earlier run left, or nothing. Throws when that was a run of other settings, another model or
  // another version, saying what differs.
  std::optional<RunState> load();

  // To be called after each step. A disk that is full costs the state, not the run.
  void step(const RunStateView& state);
  void remove();

  int64_t saved_step() const { return saved_step_; }  // 0: none in this process

 private:
  const std::string& model();

  std::filesystem::path path_;
  nlohmann::json settings_;
  std::string output_name_, model_;
  double every_seconds_, start_, last_ = 0, cost_ = 0;
  int64_t saved_step_ = 0;
  bool broken_ = false;
  std::function<std::string()> ask_model_;
};

}  // namespace tachy::cli
