// Runs a part of a stage on several ranks, each with its share of the run's threads. Rank 0 has the stream of
// the stage; the others' scratch is taken from its arena.
#pragma once

#include <algorithm>

#include "runtime/rank_team.h"

namespace tachy::runtime {

// Calls body(stream, comm) on `ranks` ranks of the team. The scratch of each is what a measure run of the same
// body takes, so the body is called twice on all but rank 0. On a measuring stream all calls measure.
void run_on_ranks(RankTeam& team, int ranks, Stream& stream,
                  const std::function<void(Stream& stream, Comm& comm)>& body);

// Returns how many ranks of a team work on a picture whose rows are divided between `units` (bands.h): no more
// than there are, and one without a team.
inline int ranks_of_rows(RankTeam* team, int64_t units) {
  return team ? static_cast<int>(std::min<int64_t>(team->size(), units)) : 1;
}

// Calls body(stream, comm) on these ranks; if there is one, in the given stream and with a null comm.
inline void run_on_rows(RankTeam* team, int64_t units, Stream& stream,
                        const std::function<void(Stream& stream, Comm* comm)>& body) {
  const int ranks = ranks_of_rows(team, units);
  if (ranks == 1) return body(stream, nullptr);
  run_on_ranks(*team, ranks, stream, [&](Stream& own, Comm& comm) { body(own, &comm); });
}

}  // namespace tachy::runtime
