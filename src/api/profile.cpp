#include "api/profile.h"

#include <fmt/format.h>

#include "report/block_monitor.h"
#include "report/profile_report.h"
#include "report/rank_profile.h"

namespace tachy {

std::string profile_tables(const RunProfiler& profiler) { return profile_tables(profiler.all_events()); }

std::string profile_json(const RunProfiler& profiler) {
  const std::vector<ProfileEvent> events = profiler.all_events();
  std::string json = profile_json(summarise(events), summarise(events, true));
  if (const std::string blocks = block_json(events); blocks != "[]")  // a part of the same object
    json.insert(json.size() - 1, fmt::format(",\"blocks\":{}", blocks));
  if (const std::string ranks = rank_json(events); ranks != "[]")
    json.insert(json.size() - 1, fmt::format(",\"ranks\":{}", ranks));
  return json;
}

std::string chrome_trace(const RunProfiler& profiler) { return chrome_trace(profiler.all_events()); }

}  // namespace tachy
