// How often each of many hosts looks at the jobs that wait. All of them together may cost the database a
// fifth of a processor, whatever their number; what one look costs is measured in bench/notes/postgres.md.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tachy::queue {

// Returns after how long a host looks again, although nobody has told it of a change.
inline int64_t look_interval_ms(int64_t hosts, int64_t waiting) {
  constexpr double kLookMs = 0.4, kLookMsOfAJob = 0.0015, kShare = 0.2;
  const double cost = kLookMs + kLookMsOfAJob * static_cast<double>(waiting);
  return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(hosts) * cost / kShare), 2'000, 30'000);
}

// Says whether a host looks at once when it is told of a new job. Of many hosts some do, by chance: `drawn`
// is a random number below 1. If all of those are busy, so are most of the others, and an idle one soon
// looks by itself.
inline bool looks_at_once(int64_t hosts, double drawn) {
  constexpr double kMostAtOnce = 8;
  return drawn * static_cast<double>(hosts) < kMostAtOnce;
}

}  // namespace tachy::queue
