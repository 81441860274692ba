// A model that is open on a device: its folder, its loaded parts, its tokenizer and the threads that compute.
// Any number of sessions share it, each in a thread of its own; what they share here is either immutable or
// behind a lock.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/gpu.h"
#include "nn/upload_check.h"
#include "request/parallel.h"
#include "session/part_cache.h"
#include "session/prompts.h"

namespace tachy {

class Tenancy;
namespace runtime {
class Crew;
}

struct ModelOptions {
  int threads = 0;  // 0: all that this process may use
  int ranks = 1;    // on the CPU: how many ranks divide a denoising pass and the threads
  // On GPUs: those that divide a denoising pass, as CUDA counts them; the first one is that of `device`, and
  // does all else. Empty: that of `device` alone.
  std::vector<int> gpus;
  Parallel parallel = {};  // how the ranks share a pass
  // The threads that make them ready (cuda::wake_peers); null if none do.
  std::shared_ptr<void> waking = nullptr;
  WeightMode weights = WeightMode::automatic;
  bool keep_loaded = false;    // whether parts stay loaded, for several requests in a row
  std::string device = "cpu";  // "cpu", "cuda", "cuda:N", or "auto": a GPU if there is one
  bool graphs = true;          // on a GPU: denoising steps are captured and replayed
  bool arena = true;      // false: every intermediate result is a separate allocation, for hunting memory
                          // errors
  uint64_t max_vram = 0;  // on a GPU: bytes that all runs together may take there; 0: what is free
  // All models on the device for which this is set share one limit: each one's max_vram holds for the runs of all
  // of them together.
  bool shares_vram = false;
  // Runs wait for an open world as they wait for one another, since whoever opened it will close it. Otherwise
  // nobody waits for a world, and what does not fit beside it is refused.
  bool waits_for_worlds = false;
  std::string text_cache;      // a folder that keeps prompts' embeddings; empty: none
  bool verify_upload = false;  // on a GPU: compares the weights there with the files, which takes seconds
  double idle_seconds = 600;   // seconds after which an idle session is released; 0: at once; below 0: never
  // The processes that make each video together, of which this is one; null: this one makes it alone.
  std::shared_ptr<runtime::Crew> crew = nullptr;
  // For tests: the memory of a device that is simulated on the host. The CPU computes as if its tensors lay
  // on a device.
  std::shared_ptr<DeviceMemory> memory = nullptr;
};

// Returns how many processes a crew has, for callers that know nothing else about one.
int processes_of(const runtime::Crew& crew);

// Throws invalid_argument if steps are to be captured while every intermediate is a separate allocation: a
// captured step needs its memory at fixed addresses.
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
  // How many ranks divide a denoising pass.
  int ranks() const { return on_gpus() ? static_cast<int>(options_.gpus.size()) : options_.ranks; }
  bool on_gpus() const { return options_.gpus.size() > 1; }  // whether those ranks are GPUs
  // The parts on the GPU of a rank, of which the first one is the model's own.
  PartCache& parts(int rank = 0) { return rank == 0 ? parts_ : rank_parts_[static_cast<size_t>(rank) - 1]; }
  nn::UploadCheck* upload_check() { return check_.get(); }  // null unless asked for

  // Returns this model's place among the models of its device (admission.h).
  Tenancy& tenancy() { return *tenancy_; }

  // A GPU is opened once for each session or world that computes on it: an opened GPU is a queue with its own
  // staging memory and states of libraries. This is the first one, for its facts; null on the CPU.
  cuda::Gpu* gpu() const { return gpu_.get(); }
  // Returns an opened GPU that nobody else computes on: the first one, if nobody has taken it, or one that is
  // opened now. Null on the CPU.
  std::shared_ptr<cuda::Gpu> take_gpu();
  // The memory in which sessions without a GPU of their own keep their tensors; null: the host's.
  DeviceMemory* memory() const { return gpu_ ? gpu_.get() : options_.memory.get(); }

  uint64_t live_bytes() const;  // bytes that all that this model has opened hold on a GPU
  // Says whether only one session may compute at a time.
  bool one_at_a_time() const { return check_ != nullptr; }

  double flops_per_second(const Precision& precision);  // approximate rate of products

 private:
  double measure_flops(const Precision& precision);

  ModelBundle bundle_;
  ModelOptions options_;
  ThreadPool pool_;
  PromptReader prompts_;
  std::shared_ptr<cuda::Gpu> gpu_;  // outlives the loaded parts
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<cuda::Gpu>> gpus_;
  std::weak_ptr<const void> first_taken_;  // owned by whoever computes on the first GPU
  std::vector<std::pair<Precision, double>> flops_per_second_;
  std::unique_ptr<nn::UploadCheck> check_;
  PartCache parts_;
  std::deque<PartCache> rank_parts_;
  std::unique_ptr<Tenancy> tenancy_;
};

}  // namespace tachy
