// The circumstances that a run depends on besides its request and its model's files, as a part of its
// settings: see base/environment.h.
#pragma once

#include "base/environment.h"

namespace tachy {

// The recorded variables that are set now; for a run on a GPU there is also a fingerprint of the algorithms
// that TACHY_TUNE has kept.
Environment run_environment(bool on_gpu);

}  // namespace tachy
