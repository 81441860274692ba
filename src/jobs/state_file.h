// The state of a run in OUTPUT.resume, for a run that resumes it. It is written beside the output after
// finished steps, at most every few seconds and never for more than a twentieth of the time, and after each
// window of a talking photo, whose frames are kept beside it (window_files.h). A thread of its own writes it, since the
// frames of 1024x1024 take half a second, and waiting for a disk tens of milliseconds. It is removed when the output is
// complete.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/tachyscope.h"
#include "jobs/window_files.h"

namespace tachy::jobs {

class StateFile {
 public:
  // `model` returns the model's fingerprint; it is called only if that is needed, from another thread too. `cancel`
  // ends a wait for the disk; it may be null.
  StateFile(const std::filesystem::path& output, const nlohmann::json& settings, double every_seconds,
            std::function<std::string()> model, const std::atomic<bool>* cancel);

  static std::filesystem::path path_of(const std::filesystem::path& output);
  // Returns the output that a state file belongs to.
  static std::filesystem::path output_of(const std::filesystem::path& state_file);

  const std::filesystem::path& path() const { return path_; }
  bool exists() const;
  // Throws io if a file that our runs did not write has one of the state's names: writing would destroy that
  // file.
  void refuse_others() const;

  // Returns the state that an earlier run left, or nothing. Throws if that run had other settings, another
  // model or another version, and says what differs.
  std::optional<RunState> load();

  // Hands out the frames of the windows that were finished before the loaded state.
  void replay(int width, int height, const std::function<void(RgbView)>& frame) const {
    windows_.replay(width, height, frame);
  }

  // Call these after each step and with each frame. A full disk costs the state, not the run; a state that
  // was saved before stays. A step that is not wanted is neither saved nor kept, and need not be handed over.
  bool wants(const RunPlace& place);
  void step(const RunStateView& state);
  void frame(RgbView frame);
  // From here on each finished step that is not saved is kept in memory, if there is room for it, and interrupted()
  // saves the last one. Call that when the run has been stopped.
  void keep_last_step() { keeps_last_ = true; }
  void interrupted();
  // Waits until the last state that was to be saved, and the window before it, are on the disk or given up.
  void settle();
  void remove();

  // Says where the run could resume: "step 3", "block 3", "step 3 of window 2 of 5", "window 2 of 5". Empty:
  // nowhere.
  std::string saved() const;
  // Returns words to add to the message that the run was stopped.
  std::string going_on() const;

 private:
  const std::string& model();
  bool due(const RunPlace& place) const;
  void save(const RunStateView& state);
  void save_aside(const RunStateView& state);
  void give_up(const Error& e);
  void remember(const RunStateView& state);

  std::filesystem::path path_;
  nlohmann::json settings_;
  std::string output_name_, model_;
  double every_seconds_, start_, last_ = 0, cost_ = 0;
  int64_t window_ = 0, count_ = 1;  // for a talking photo: the current window, and how many there are
  struct Saved {
    int64_t step = 0, window = 0, windows = 1;
  };
  std::optional<Saved> saved_;
  RunState last_step_;  // the last finished step, if `unsaved_`
  int64_t steps_ = 0;   // all steps of its run
  bool unsaved_ = false, keeps_last_ = false;
  bool broken_ = false;
  std::function<std::string()> ask_model_;
  std::shared_future<std::string> coming_model_;
  WindowFiles windows_;
  // A thread writes this while the run goes on. It alone uses it and `windows_` until `saving_` is ready.
  RunState aside_;
  std::future<double> saving_;  // seconds that it took; last, so that it is destroyed before what it uses
};

}  // namespace tachy::jobs
