#include "denoise/run_state.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tachy {
namespace {

void check_values(const std::vector<float>& values, size_t count, const char* what) {
  check(values.size() == count && std::ranges::all_of(values, [](float x) { return std::isfinite(x); }),
        ErrorCode::corrupt, "resume: expected {} finite {}, got {} values", count, what, values.size());
}

// Checks the state of a talking photo's window: the frames of earlier windows have been handed out whole.
void check_window(const RunState& s, const TalkWindows& talk, const Tensor& motion) {
  const int64_t windows = std::max<int64_t>(talk.count(), 1);
  check(s.windows == windows && s.window >= 0 && s.window < windows, ErrorCode::corrupt,
        "resume: window {} of {}, here are {}", s.window + 1, s.windows, windows);
  const int64_t frames = s.window > 0 ? talk.first_new(s.window) : 0;
  check(s.frames == frames, ErrorCode::corrupt, "resume: expected {} frames before window {}, got {}", frames,
        s.window + 1, s.frames);
  check_values(s.motion, s.window > 0 ? static_cast<size_t>(motion.numel()) : 0,
               "latents that the window takes over");
}

}  // namespace

void check_state(const RunState& s, const Resolved& r, const Shared& shared, const StateCounts& counts) {
  check_window(s, r.talk, shared.motion);
  check(s.step >= (s.window > 0 ? 0 : 1) && s.step <= counts.all, ErrorCode::corrupt, "resume: {} {} of {}",
        counts.what, s.step, counts.all);
  const auto values = static_cast<size_t>(shared.latents.numel());
  check_values(s.latents, values, "latents");
  check(s.solver.size() == static_cast<size_t>(counts.tensors), ErrorCode::corrupt,
        "resume: the sampler keeps {} tensors, got {}", counts.tensors, s.solver.size());
  for (const auto& tensor : s.solver) check_values(tensor, values, "values of the sampler");
}

bool denoised(const RunState& state, const Resolved& r) { return state.step == r.sampler.steps(); }

}  // namespace tachy
