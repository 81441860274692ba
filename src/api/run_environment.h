// Tells what a run depends on beside its request and its model's files, for its settings: see base/environment.h.
#pragma once

#include "base/environment.h"

namespace tachy {

// The recorded variables that are set now; of a run on a GPU also a fingerprint of the algorithms that TACHY_TUNE has kept.
Environment run_environment(bool on_gpu);

}  // namespace tachy
