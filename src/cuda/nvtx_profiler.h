// Ranges of NVTX, for Nsight Systems and Nsight Compute: each is pushed when the host comes to it and popped when it leaves it.
// Nothing is timed and no graph is switched off, so that a profiled run is the run that users have; the ranges inside a recorded
// step are told once, while it is recorded, and from then on it is one launch within its step's range.
#pragma once

#include <memory>

#include "base/profile_range.h"

namespace tachy::cuda {

// `also`: who else is told, or null. Throws unsupported where the build found no NVTX headers.
std::unique_ptr<Profiler> make_nvtx_profiler(Profiler* also);

}  // namespace tachy::cuda
