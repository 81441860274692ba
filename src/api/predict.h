// This predicts what a run would take on a GPU that is not here: the plan of its memory, and a time for each stage, from the least to the
// most, by rates that are kept for that kind of GPU. Nothing is loaded and no GPU is needed. Loading the model and encoding
// the file are not included; memory is that of weights and activations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_paths.h"
#include "request/request.h"

namespace tachy {

struct AbsentGpu {
  std::string name;       // "a100", "h100", "h200" …
  uint64_t max_vram = 0;  // bytes that the run may take there; 0: all that it has
};

// In seconds.
struct PredictedTime {
  double least = 0, most = 0;
};

struct PredictedRun {
  std::string gpu;         // "NVIDIA A100, 80 GB"
  bool ran_there = false;  // whether the rates were measured on one
  VideoPlan plan;          // its seconds are the least
  VideoRequest request;    // with every default filled in

  // The work that a stage does of one kind ("products", "attention", "convolutions", "passes", "transfers") in one dtype ("bf16").
  struct Work {
    std::string kind, numbers;
    double flops = 0, bytes = 0;  // of all calls
    int64_t calls = 0;
  };
  struct Stage {
    std::string name;  // as in VideoPlan::stages
    PredictedTime seconds;
    std::vector<Work> work;  // by kind, then dtype
  };
  std::vector<Stage> stages;
  PredictedTime seconds;
};

// Throws invalid_argument for another GPU's name, with those that are known, unsupported where a rate that the run depends on
// is not known, and what Engine::plan throws.
PredictedRun predict(const std::filesystem::path& model, const PartPaths& parts, const AbsentGpu& gpu,
                     const VideoRequest& request);

}  // namespace tachy
