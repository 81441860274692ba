// Progress of a run: a line with bar and ETA on a terminal, nothing otherwise, JSON lines with --json. A talking photo's windows
// have one line together, whose bar counts the steps of all.
#pragma once

#include <string>

#include "api/tachyscope.h"

namespace tachy::cli {

class ProgressLine {
 public:
  enum class Mode { quiet, terminal, json };
  explicit ProgressLine(Mode mode) : mode_(mode) {}
  ~ProgressLine() { clear(); }

  void update(const Progress& progress);
  void clear();  // before other output goes to the terminal

  static Mode choose(bool json, bool quiet);

  // The line itself, as wide as it comes.
  std::string line(const Progress& progress);

 private:
  Mode mode_;
  bool shown_ = false;
  double last_draw_ = 0;
  std::string last_stage_;
  int64_t steps_done_ = 0, steps_ = 0;  // of all windows
};

}  // namespace tachy::cli
