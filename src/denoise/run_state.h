// The state that a run goes on from: whether it is one of this request, and where the run then begins.
#pragma once

#include "session/stage.h"

namespace tachy {

// What a state counts: finished steps or blocks, of how many, and the sampler's tensors between them.
struct StateCounts {
  const char* what = "step";
  int64_t all = 0;
  int tensors = 0;
};

// A state read from a file may be anything: throws corrupt unless it fits the request.
void check_state(const RunState& state, const Resolved& request, const Shared& shared,
                 const StateCounts& counts);

// Whether its window, or the clip, has no steps left.
bool denoised(const RunState& state, const Resolved& request);

}  // namespace tachy
