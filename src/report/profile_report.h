// The report of a profile: each module's time as a tree, the sum by kind of work, and a Chrome trace of
// everything (open it in chrome://tracing or ui.perfetto.dev).
#pragma once

#include <string>
#include <vector>

#include "base/run_profiler.h"

namespace tachy {

struct ProfileRow {
  std::string path;  // "denoise/step/transformer/block/feed-forward/up + gelu"
  ProfileKind kind;
  int64_t count = 0;
  double total_us = 0, self_us = 0;  // self_us is the time that no inner range covers
  double mean_us = 0, median_us = 0, p95_us = 0;
  double share = 0;  // share of the whole profile's time
  int depth() const;
  std::string name() const;
};

struct ProfileReport {
  double wall_us = 0;            // time from the first begin to the last end
  std::vector<ProfileRow> rows;  // parents before children, in order of first appearance
  std::vector<std::pair<ProfileKind, double>> by_kind;  // the module's own time, largest first
};

// Summarises the host's ranges, or with `device` those that a GPU's clock timed (empty if there are none). Of several
// ranks it is one rank's; rank 0 also does what is not divided.
ProfileReport summarise(const std::vector<ProfileEvent>& events, bool device = false, int rank = 0);
// Shows the tables of host and GPU, if there are both: the GPU's work first, then what the host did meanwhile
// (mostly queueing).
std::string profile_tables(const std::vector<ProfileEvent>& events);

std::string profile_table(const ProfileReport& report);
// `device` is empty, or the GPU's report, which is stored under "device".
std::string profile_json(const ProfileReport& report, const ProfileReport& device = {});
std::string chrome_trace(const std::vector<ProfileEvent>& events);

}  // namespace tachy
