// The time of day, as the table of jobs and logs have it.
#pragma once

#include <fmt/chrono.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace tachy::workers {

inline int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline std::string utc_time(int64_t ms) {  // "2026-11-27T19:07:52Z"
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}

}  // namespace tachy::workers
