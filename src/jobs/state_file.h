// The state of a run in OUTPUT.resume, for a run that goes on: written beside the output after finished steps, at most
// every few seconds and never for more than a twentieth of the time, and after each window of a talking photo, whose frames are
// kept beside it (window_files.h); gone when the output is complete.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/tachyscope.h"
#include "jobs/window_files.h"

namespace tachy::jobs {

class StateFile {
 public:
  // model: the fingerprint, asked for when it is needed. cancel: stops what waits for the disk; may be null.
  StateFile(const std::filesystem::path& output, const nlohmann::json& settings, double every_seconds,
            std::function<std::string()> model, const std::atomic<bool>* cancel);

  static std::filesystem::path path_of(const std::filesystem::path& output);
  // The output that a state file belongs to.
  static std::filesystem::path output_of(const std::filesystem::path& state_file);

  const std::filesystem::path& path() const { return path_; }
  bool exists() const;
  // Throws io where something lies at its names that no run of ours has written: it would be lost.
  void refuse_others() const;

  // What an earlier run left, or nothing. Throws when that was a run of other settings, another model or
  // another version, saying what differs.
  std::optional<RunState> load();

  // The frames of the windows that were finished before what load() gave.
  void replay(int width, int height, const std::function<void(RgbView)>& frame) const {
    windows_.replay(width, height, frame);
  }

  // To be called after each step and with each frame. A disk that is full costs the state, not the run; what
  // was saved before stays.
  void step(const RunStateView& state);
  void frame(RgbView frame);
  void remove();

  // Where the run could go on from: "step 3", "block 3", "step 3 of window 2 of 5", "window 2 of 5". Empty: nowhere.
  std::string saved() const;
  // Returns what is added to the message that the run was stopped.
  std::string going_on() const;

 private:
  const std::string& model();
  bool due(const RunStateView& state) const;
  void save(const RunStateView& state);
  void give_up(const Error& e);

  std::filesystem::path path_;
  nlohmann::json settings_;
  std::string output_name_, model_;
  double every_seconds_, start_, last_ = 0, cost_ = 0;
  int64_t window_ = 0, count_ = 1;  // of a talking photo: the window under way, of how many
  struct Saved {
    int64_t step = 0, window = 0, windows = 1;
  };
  std::optional<Saved> saved_;
  bool broken_ = false;
  std::function<std::string()> ask_model_;
  WindowFiles windows_;
};

}  // namespace tachy::jobs
