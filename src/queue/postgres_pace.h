// How often each of many hosts looks at the jobs that wait, and at those that its clients ask for. All of
// them together may cost the database a fifth and a tenth of a processor, whatever their number; what one
// look costs is measured in bench/notes/postgres.md.
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

// Returns after how long a host asks which of the rows that it has in memory others have changed. All hosts
// together may cost a tenth of a processor by that. It is less than a beat in any case (polled_rows.cpp).
inline int64_t check_interval_ms(int64_t hosts, size_t rows) {
  constexpr double kCheckMs = 0.1, kCheckMsOfARow = 0.004, kShare = 0.1;
  const double cost = kCheckMs + kCheckMsOfARow * static_cast<double>(rows);
  return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(hosts) * cost / kShare), 1'000, 3'000);
}

// Says whether a host looks at once when it is told of a new job. Of many hosts some do, by chance: `drawn`
// is a random number below 1. If all of those are busy, so are most of the others, and an idle one soon
// looks by itself.
inline bool looks_at_once(int64_t hosts, double drawn) {
  constexpr double kMostAtOnce = 8;
  return drawn * static_cast<double>(hosts) < kMostAtOnce;
}

}  // namespace tachy::queue
