// Shows what a long command is doing now: one line on a terminal that the next overwrites, elsewhere the first one and then one
// every 30 seconds (heartbeat.h). The file that it writes at its end is here, too.
#pragma once

#include <filesystem>
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

// Throws io when a file could not be written there: hours of work must not end in that. "" is fine.
void check_writable(const char* option, const std::filesystem::path& path);
// Writes a finished file or none.
void write_file(const std::string& path, const std::string& text);

}  // namespace tachy::cli
