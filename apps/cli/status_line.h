// Shows what a long command is doing now: on a terminal one line that the next one overwrites; elsewhere the
// first line and then one every 30 seconds (heartbeat.h).
#pragma once

#include <string>

#include "heartbeat.h"

namespace tachy::cli {

class StatusLine {
 public:
  explicit StatusLine(bool wanted);
  ~StatusLine() { clear(); }
  void show(const std::string& text);
  void clear();

 private:
  bool wanted_, terminal_, shown_ = false;
  Heartbeat heartbeat_;
};

}  // namespace tachy::cli
