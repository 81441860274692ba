// Predicts a run on a GPU that is not here: the plan's dry run with that GPU's properties, and a time from
// its rates. Each call takes the time of its products or that of its bytes, whichever is longer, plus a
// launch; blocks that come from the host are transferred at the same time. Loading and encoding the file are
// not included. How much memory kernels need for themselves cannot be known without that GPU, so the plan's
// memory is that of weights and activations only.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "catalog/part_paths.h"
#include "estimate/gpu_rates.h"
#include "request/request.h"

namespace tachy {

struct Seconds {
  double least = 0, most = 0;
  double middle() const { return (least + most) / 2; }
};

// Throws unsupported if a rate that matters is not known.
Seconds seconds_of(std::span<const OpWork> work, const GpuRates& rates);

struct TimePlan {
  std::string gpu;    // its title
  bool seen = false;  // GpuRates::seen
  VideoPlan plan;     // its seconds are the least
  VideoRequest request;
  struct Stage {
    std::string name;
    Seconds seconds;
    std::vector<OpWork> work;
  };
  std::vector<Stage> stages;
  Seconds seconds;
};

struct TimePlanInput {
  std::filesystem::path model;
  PartPaths parts;
  std::string gpu;        // a name of gpu_rates()
  uint64_t max_vram = 0;  // 0: all of its memory
};
TimePlan plan_time(const TimePlanInput& in, const VideoRequest& request);

}  // namespace tachy
