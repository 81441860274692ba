// Shows a run's progress: a line with bar and ETA on a terminal, JSON lines with --json, otherwise a plain
// line when a stage begins and then one every 30 seconds with its share and ETA. All windows of a talking
// photo have one line, whose bar counts the steps of all windows.
#pragma once

#include <set>
#include <string>

#include "api/tachyscope.h"
#include "heartbeat.h"

namespace tachy::cli {

class ProgressLine {
 public:
  enum class Mode { quiet, terminal, json, plain };
  explicit ProgressLine(Mode mode, double every_seconds = Heartbeat::kEverySeconds)
      : mode_(mode), heartbeat_(every_seconds) {}
  // One of several runs at once, which `device` names in each line. There is no bar.
  ProgressLine(Mode mode, std::string device)
      : mode_(mode == Mode::terminal ? Mode::plain : mode),
        device_(std::move(device)),
        heartbeat_(Heartbeat::kEverySeconds) {}
  ~ProgressLine() { clear(); }

  void update(const Progress& progress);
  void clear();  // call this before other output goes to the terminal

  static Mode choose(bool json, bool quiet);

  // Returns the line itself, in its full width; plain_line returns a text without a bar: "denoise: 7 of 20
  // (35 %), 2 min 10 s, 4 min 02 s left".
  std::string line(const Progress& progress);
  static std::string plain_line(const Progress& progress);

 private:
  void update_plain(const Progress& progress);

  std::string named(const std::string& line) const { return device_.empty() ? line : device_ + ": " + line; }

  Mode mode_;
  std::string device_;
  bool shown_ = false;
  double last_draw_ = 0;
  std::string last_stage_;
  int64_t steps_done_ = 0, steps_ = 0;  // over all windows
  std::set<std::string> begun_;         // stages that have begun, separately for each window
  Heartbeat heartbeat_;
};

}  // namespace tachy::cli
