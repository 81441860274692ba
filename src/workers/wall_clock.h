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

// Returns when something that ended is removed again; 0: never, which keep_days 0 stands for.
inline int64_t expiry_of(int64_t ended_ms, double keep_days) {
  return keep_days > 0 ? ended_ms + static_cast<int64_t>(keep_days * 86400e3) : 0;
}

inline std::string utc_time(int64_t ms) {  // "2026-11-27T19:07:52Z"
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(ms / 1000)));
}

}  // namespace tachy::workers
