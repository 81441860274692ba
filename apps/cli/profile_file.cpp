#include "profile_file.h"

#include <fmt/format.h>

#include <vector>

#include "api/gauges.h"
#include "media/files.h"
#include "status_line.h"

namespace tachy::cli {

ProfileWords write_profile(const std::string& path, const RunProfiler& profiler) {
  const std::vector<ProfileEvent> events = profiler.all_events();
  write_whole(path, chrome_trace(events));
  std::string json = profile_json(summarise(events), summarise(events, true));
  if (const std::string blocks = block_json(events); blocks != "[]")  // into the same object
    json.insert(json.size() - 1, fmt::format(",\"blocks\":{}", blocks));
  return {std::move(json),
          fmt::format("{}{}: open it in ui.perfetto.dev or chrome://tracing", profile_tables(events), path)};
}

}  // namespace tachy::cli
