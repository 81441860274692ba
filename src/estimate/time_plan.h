// Predicts a run on a GPU that this machine does not have. It combines the plan's dry run, made with the
// other GPU's properties, and a time from that GPU's rates. Each call takes the time of its products or of
// its bytes, whichever is longer, plus a launch; blocks that come from the host are transferred at the same
// time. Nothing hides the exchanges of several GPUs here. Loading and encoding the file are not included. The
// memory that kernels need for themselves is unknown without that GPU, so the plan counts only weights and
// activations.
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

// Throws unsupported if a rate that is needed is unknown.
Seconds seconds_of(std::span<const OpWork> work, const GpuRates& rates);

struct TimePlan {
  std::string gpu;    // the GPU's title
  bool seen = false;  // GpuRates::seen
  VideoPlan plan;     // its seconds are the shortest times
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
  std::string gpu;                // a name in gpu_rates()
  uint64_t max_vram = 0;          // 0 means all of its memory
  int gpus = 1;                   // how many of them one host has, which divide each denoising pass
  std::string parallel = "auto";  // how, as EngineOptions::parallel says
};
TimePlan plan_time(const TimePlanInput& in, const VideoRequest& request);

}  // namespace tachy
