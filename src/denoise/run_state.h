// Checks the state that a run resumes from: whether it belongs to this request, and whether any steps are
// left.
#pragma once

#include "session/stage.h"

namespace tachy {

// The unit that a state counts (finished steps or blocks), the number of them in the whole run, and the
// number of the sampler's tensors that it keeps.
struct StateCounts {
  const char* what = "step";
  int64_t all = 0;
  int tensors = 0;
};

// A state that was read from a file may hold anything, so this throws corrupt unless it fits the request.
void check_state(const RunState& state, const Resolved& request, const Shared& shared,
                 const StateCounts& counts);

// Says whether the state's window, or the clip, has no steps left.
bool denoised(const RunState& state, const Resolved& request);

}  // namespace tachy
