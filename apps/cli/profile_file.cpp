#include "profile_file.h"

#include <fmt/format.h>

#include <vector>

#include "status_line.h"

namespace tachy::cli {

ProfileWords write_profile(const std::string& path, const RunProfiler& profiler) {
  const std::vector<ProfileEvent> events = profiler.all_events();
  write_file(path, chrome_trace(events));
  return {profile_json(summarise(events), summarise(events, true)),
          fmt::format("{}{}: open it in ui.perfetto.dev or chrome://tracing", profile_tables(events), path)};
}

}  // namespace tachy::cli
