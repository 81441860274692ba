// Predicts a run on a GPU that is not here: its memory plan, and for each stage the least and the most time,
// from rates that are kept for that kind of GPU. Nothing is loaded and no GPU is needed. The times do not
// include loading the model and encoding the file; memory is that of weights and activations.
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
  uint64_t max_vram = 0;  // bytes that the run may take there; 0: all of its memory
  // How many of them one host has, which divide each denoising pass, and how (EngineOptions::parallel).
  int count = 1;
  std::string parallel = "auto";
};

// Times in seconds.
struct PredictedTime {
  double least = 0, most = 0;
};

struct PredictedRun {
  std::string gpu;         // "NVIDIA A100, 80 GB"
  bool ran_there = false;  // whether the rates were measured on such a GPU
  VideoPlan plan;          // its seconds are the least ones
  VideoRequest request;    // the request with every default filled in

  // A stage's work of one kind ("products", "attention", "convolutions", "passes", "transfers") in one dtype
  // ("bf16").
  struct Work {
    std::string kind, numbers;
    double flops = 0, bytes = 0;  // totals of all calls
    int64_t calls = 0;
  };
  struct Stage {
    std::string name;  // as in VideoPlan::stages
    PredictedTime seconds;
    std::vector<Work> work;  // ordered by kind, then by dtype
  };
  std::vector<Stage> stages;
  PredictedTime seconds;
};

// Throws invalid_argument for an unknown GPU, listing those that are known, and unsupported if a rate that
// the run depends on is not known. It also throws what Engine::plan throws.
PredictedRun predict(const std::filesystem::path& model, const PartPaths& parts, const AbsentGpu& gpu,
                     const VideoRequest& request);

}  // namespace tachy
