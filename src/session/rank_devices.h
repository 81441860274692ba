// The further cards of a session whose denoising passes several GPUs share. Each has a queue, scratch, tensors
// and graphs of its own, as the session has on the first card; the parts that it loads are the model's. All that is not
// divided is on the first card. The plan is that card's, whose shares are the largest, and the others take no more.
// Nobody stands in line for them: what does not fit there is an error that names the GPU.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/event_profiler.h"
#include "runtime/peer_team.h"
#include "runtime/step_graph.h"
#include "session/adapter_shelf.h"
#include "session/parts.h"
#include "tensor/buffer_shelf.h"

namespace tachy {

// Returns what to say about GPUs that share passes though they are not of one kind; "" if they are.
std::string told_of_kinds(std::span<const cuda::GpuInfo> gpus);

class RankDevices {
 public:
  // `first` is the session's own GPU; `others` are numbers of GPUs as CUDA counts them. They are opened in threads, since
  // each takes up to half a second. The first call that needs them waits, and throws what opening them threw.
  RankDevices(std::shared_ptr<cuda::Gpu> first, std::span<const int> others);

  // A rank's own things. The first rank has nothing here but its GPU, since the session is its place.
  struct Place {
    std::shared_ptr<cuda::Gpu> gpu;
    std::optional<Arena> arena;
    Stream stream;
    std::array<std::shared_ptr<const LoadedPart>, 2> transformers;  // of each expert
    std::shared_ptr<const LoadedPart> vae_decoder;
    std::array<BufferShelf, 2> shelves;
    std::array<AdapterShelf, 2> adapters;
    std::array<runtime::StepGraph, 2> graphs;
    std::unique_ptr<cuda::EventProfiler> profiler;
  };
  int size() const { return static_cast<int>(places_.size()); }
  Place& place(int rank) {
    if (!ready_) await_all();
    return places_[static_cast<size_t>(rank)];
  }

  // Returns the team of the layout's ranks, which are the first ones.
  runtime::PeerTeam& team(const runtime::RankLayout& layout);
  // Returns the team of the first ranks, which divide the rows of a picture. It can be that of the passes.
  runtime::PeerTeam& team_of_rows(int ranks);

  // From the next enter() on, `host` is told of the ranges of every rank, and each card's own clock times those of its
  // rank, until unwatch(). Ranges of the first rank are the caller's.
  void watch(Profiler& host, DeviceTimes& times);
  void unwatch();
  // Gives every further rank a stream like the first one's, with so much scratch.
  void enter(const Stream& first, size_t scratch_bytes);
  // Gives back what no later pass of this job needs: scratch, an expert's adapters and transformer (unless `holds`),
  // the VAE.
  void leave_scratch();
  bool has_room(uint64_t bytes);  // whether so much is free on each of the further GPUs
  void leave(int expert, bool holds);
  void leave_vae();
  void rewind();
  void drop();

 private:
  void await_all();

  std::vector<Place> places_;
  std::unique_ptr<runtime::PeerTeam> team_, rows_;
  std::shared_future<void> opening_;  // destroyed first: it waits for the threads
  bool ready_ = false;
};

// While it exists, the other GPUs of a run time their ranges, too. Null devices: there are none.
class WatchedRanks {
 public:
  WatchedRanks(RankDevices* devices, Profiler* host, DeviceTimes* times) : devices_(devices) {
    if (devices_) devices_->watch(*host, *times);
  }
  ~WatchedRanks() {
    if (devices_) devices_->unwatch();
  }
  WatchedRanks(const WatchedRanks&) = delete;
  WatchedRanks& operator=(const WatchedRanks&) = delete;

 private:
  RankDevices* devices_;
};

}  // namespace tachy
