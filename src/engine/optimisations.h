// Lists which optimisations are on in a run, why, and what each is worth: for `--plan`, `doctor` and bench's
// table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "resolve/resolved.h"
#include "tensor/precision.h"
#include "tensor/without.h"

namespace tachy {

struct OptimisationCase {
  bool gpu = false, hopper = false;
  bool definitions = false;  // whether the level is "none"
  Precision precision;
  Without without;
  bool graphs = false;
  double step_cache = 0;
  bool too_few_steps = false;  // for the step cache that is asked for
  std::string step_cache_kind = "rate";
  int branches = 0;                    // most branches of guidance; 0: there is no request
  std::span<const ops::OpPick> picks;  // picks of denoising, if it is planned; attention's kernels are listed
                                       // from them
};

std::vector<OptimisationState> optimisation_states(const OptimisationCase& run);
// Returns the optimisations of a request that was resolved for this device, with its plan.
std::vector<OptimisationState> states_of(const Resolved& request, const VideoPlan& plan,
                                         const cuda::GpuInfo* gpu);

}  // namespace tachy
