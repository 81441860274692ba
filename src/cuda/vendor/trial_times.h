// Times several ways of doing one thing on the device, and picks one. The caller keeps the choice
// (algorithm_cache.h).
#pragma once

#include <cstddef>
#include <functional>

#include "cuda/gpu.h"

namespace tachy::cuda {

struct TrialPick {
  size_t pick = 0;
  double us = 0, first_us = 0;  // medians of the way that is picked and of the first
};

// `run` queues way i of `count`. The first way stays unless another one is clearly faster.
TrialPick pick_fastest(Gpu& gpu, size_t count, const std::function<void(size_t i)>& run);

}  // namespace tachy::cuda
