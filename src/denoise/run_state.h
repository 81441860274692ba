// Checks the state that a run resumes from: whether it belongs to this request, and whether any steps are
// left.
#pragma once

#include "session/stage.h"

namespace tachy {

// A state read from a file may be anything: throws corrupt unless it fits the request.
void check_state(const RunState& state, const Resolved& request, const Shared& shared);

// Whether its window, or the clip, has no steps left. One that is made block by block always has a block left.
bool denoised(const RunState& state, const Resolved& request);

}  // namespace tachy
