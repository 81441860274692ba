// The file and the texts of `--profile`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/tachyscope.h"

namespace tachy::cli {

// Holds the profilers that `--profile` and `--nvtx` ask for.
class Watchers {
 public:
  // on_gpu says that the run is on a GPU: a profile there marks its ranges for NVTX itself.
  Watchers(bool profile, bool nvtx, bool on_gpu) {
    if (profile) profile_.emplace();
    if (nvtx && !(profile && on_gpu)) nvtx_ = nvtx_ranges(profile ? &*profile_ : nullptr);
  }
  Profiler* all() { return nvtx_ ? nvtx_.get() : profile(); }
  RunProfiler* profile() { return profile_ ? &*profile_ : nullptr; }

 private:
  std::optional<RunProfiler> profile_;
  std::unique_ptr<Profiler> nvtx_;
};

struct ProfileWords {
  std::string json, text;  // an event, and tables for people
};
// Writes the Chrome trace of a run that has ended.
ProfileWords write_profile(const std::string& path, const RunProfiler& profiler);

}  // namespace tachy::cli
