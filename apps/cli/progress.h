// Progress of a run: a line with bar and ETA on a terminal, nothing otherwise, JSON lines with --json.
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

 private:
  Mode mode_;
  bool shown_ = false;
  double last_draw_ = 0;
  std::string last_stage_;
};

}  // namespace tachy::cli
