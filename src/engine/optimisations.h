// This lists which optimisations are on in a run, why, and what each is worth: for `--plan`, `doctor` and the table that bench makes.
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
  bool definitions = false;  // level none
  Precision precision;
  Without without;
  bool graphs = false;
  double step_cache = 0;
  int branches = 0;                    // of guidance, at most; 0: no request is at hand
  std::span<const ops::OpPick> picks;  // of denoising, where it is planned: attention's kernels are listed
};

std::vector<OptimisationState> optimisation_states(const OptimisationCase& run);
// Those of a request that was resolved for this device, and its plan.
std::vector<OptimisationState> states_of(const Resolved& request, const VideoPlan& plan,
                                         const cuda::GpuInfo* gpu);

}  // namespace tachy
