// What `--profile` writes and says.
#pragma once

#include <string>

#include "api/tachyscope.h"

namespace tachy::cli {

struct ProfileWords {
  std::string json, text;  // an event, and tables for people
};
// Writes the Chrome trace of a run that has ended.
ProfileWords write_profile(const std::string& path, const RunProfiler& profiler);

}  // namespace tachy::cli
