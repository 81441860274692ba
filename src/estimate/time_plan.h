// What a run would take on a GPU that is not here: the plan's dry run with that GPU's facts, and a time by its rates. Each
// call takes the longer of its products at their rate and its bytes at the memory's, and a launch; blocks that pass
// from the host do so beside all that. Loading and the file's encoder are not in it. What kernels need for themselves is
// not known without them: memory is that of weights and activations.
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

// Throws unsupported where a rate that matters is not known.
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
