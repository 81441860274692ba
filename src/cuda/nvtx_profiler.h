// Ranges of NVTX, for Nsight Systems and Nsight Compute. Each is pushed when the host enters it and popped
// when it leaves it. Nothing is timed and no graph is switched off, so that a profiled run is the run that
// users have. The ranges inside a recorded step appear once, while it is recorded; from then on the step is
// one launch within its own range.
#pragma once

#include <memory>

#include "base/profile_range.h"

namespace tachy::cuda {

// `also` is another profiler that is called, too, or null. Throws `unsupported` if the build found no NVTX
// headers.
std::unique_ptr<Profiler> make_nvtx_profiler(Profiler* also);

}  // namespace tachy::cuda
