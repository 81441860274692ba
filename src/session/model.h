// A model that is open on a device: its folder, the parts of it that are loaded, its tokenizer and the
// threads that compute. Shared by any number of sessions, each in a thread of its own; what they share here
// is either immutable or behind a lock.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cuda/gpu.h"
#include "nn/upload_check.h"
#include "session/part_cache.h"
#include "session/prompts.h"

namespace tachy {

class Tenancy;

struct ModelOptions {
  int threads = 0;  // 0: all this process may use
  int ranks = 1;    // on the CPU: how many divide a denoising pass and the threads
  WeightMode weights = WeightMode::automatic;
  bool keep_loaded = false;    // for several requests in a row
  std::string device = "cpu";  // "cpu", "cuda" or "cuda:N", "auto": a GPU where there is one
  bool graphs = true;          // on a GPU: denoising steps are captured and replayed
  bool arena = true;       // false: every intermediate is an allocation of its own, for hunting memory errors
  uint64_t max_vram = 0;   // on a GPU: bytes that all runs together may take there; 0: what is free
  std::string text_cache;  // a folder that keeps prompts' embeddings; empty: none
  bool verify_upload = false;  // on a GPU: weights there are compared with the files, at the price of seconds
  double idle_seconds = 600;   // after which an idle session is given back; 0: at once; below 0: never
  // For tests: a device's memory on the host. The CPU computes as if its tensors lay on a device.
  std::shared_ptr<DeviceMemory> memory = nullptr;
};

// Throws invalid_argument where every intermediate is to be an allocation of its own and steps are to be captured: a captured
// step needs its memory at fixed addresses.
void check_arena(const ModelOptions& options, bool graphs);

class Model {
 public:
  Model(ModelBundle bundle, ModelOptions options);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelBundle& bundle() const { return bundle_; }
  const ModelOptions& options() const { return options_; }
  ThreadPool& pool() { return pool_; }
  int threads() const { return pool_.threads(); }
  PromptReader& prompts() { return prompts_; }
  PartCache& parts() { return parts_; }
  nn::UploadCheck* upload_check() { return check_.get(); }  // null unless asked for

  // Its place among the models of its device (admission.h).
  Tenancy& tenancy() { return *tenancy_; }

  // A GPU is opened once for each session or world that computes on it: an opened one is a queue with its own staging
  // memory and libraries' states. This is the first, for its facts; null on the CPU.
  cuda::Gpu* gpu() const { return gpu_.get(); }
  // One that nobody else computes on: the first, while it is nobody's, or one that is opened now. Null on the CPU.
  std::shared_ptr<cuda::Gpu> take_gpu();
  // Where sessions without a GPU of their own keep their tensors; null: on the host.
  DeviceMemory* memory() const { return gpu_ ? gpu_.get() : options_.memory.get(); }

  uint64_t live_bytes() const;  // on a GPU: held there by what this model has opened
  // Whether only one session may compute at a time.
  bool one_at_a_time() const { return check_ != nullptr; }

  double flops_per_second(const Precision& precision);  // of products, roughly

 private:
  double measure_flops(const Precision& precision);

  ModelBundle bundle_;
  ModelOptions options_;
  ThreadPool pool_;
  PromptReader prompts_;
  std::shared_ptr<cuda::Gpu> gpu_;  // outlives what was loaded
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<cuda::Gpu>> gpus_;
  std::weak_ptr<const void> first_taken_;  // by whoever computes on the first of them
  std::vector<std::pair<Precision, double>> flops_per_second_;
  std::unique_ptr<nn::UploadCheck> check_;
  PartCache parts_;
  std::unique_ptr<Tenancy> tenancy_;
};

}  // namespace tachy
