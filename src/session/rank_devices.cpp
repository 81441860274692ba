#include "session/rank_devices.h"

#include <fmt/format.h>

#include <future>

#include "base/notice.h"
#include "tensor/streaming_memory.h"

namespace tachy {

std::string told_of_kinds(std::span<const cuda::GpuInfo> gpus) {
  for (const cuda::GpuInfo& gpu : gpus)
    if (gpu.name != gpus.front().name)
      return fmt::format(
          "`gpus`: cuda:{} is {} and cuda:{} is {}; each gets an equal share of a pass, so the "
          "slowest decides how long it takes",
          gpus.front().index, gpus.front().name, gpu.index, gpu.name);
  return "";
}

RankDevices::RankDevices(std::shared_ptr<cuda::Gpu> first, std::span<const int> others)
    : places_(1 + others.size()) {
  places_.front().gpu = std::move(first);
  const std::vector<int> indices(others.begin(), others.end());
  opening_ = std::async(std::launch::async, [this, indices] {
    std::vector<std::future<std::shared_ptr<cuda::Gpu>>> opened;
    for (const int index : indices)
      opened.push_back(std::async(std::launch::async,
                                  [index]() -> std::shared_ptr<cuda::Gpu> { return cuda::open_gpu(index); }));
    for (size_t i = 0; i < opened.size(); ++i) places_[i + 1].gpu = opened[i].get();
    std::vector<cuda::Gpu*> all;
    for (const Place& p : places_) all.push_back(p.gpu.get());
    cuda::prepare_peers(all);
  });
}

void RankDevices::await_all() {
  opening_.get();
  ready_ = true;
  std::vector<cuda::GpuInfo> infos;
  for (const Place& p : places_) infos.push_back(p.gpu->info());
  if (const std::string told = told_of_kinds(infos); !told.empty()) say_line(told);
}

runtime::PeerTeam& RankDevices::team(const runtime::RankLayout& layout) {
  if (team_ && team_->layout() == layout) return *team_;
  for (Place& p : places_)
    for (runtime::StepGraph& graph : p.graphs) graph.forget();  // they name the old team's flags
  team_.reset();
  std::vector<std::shared_ptr<cuda::Gpu>> gpus;
  for (int rank = 0; rank < layout.count(); ++rank) gpus.push_back(place(rank).gpu);
  team_ = std::make_unique<runtime::PeerTeam>(layout, std::move(gpus));
  return *team_;
}

runtime::PeerTeam& RankDevices::team_of_rows(int ranks) {
  const runtime::RankLayout layout{.groups = 1, .per_group = ranks};
  if (team_ && team_->layout() == layout) return *team_;
  if (rows_ && rows_->layout() == layout) return *rows_;
  std::vector<std::shared_ptr<cuda::Gpu>> gpus;
  for (int rank = 0; rank < ranks; ++rank) gpus.push_back(place(rank).gpu);
  rows_ = std::make_unique<runtime::PeerTeam>(layout, std::move(gpus));
  return *rows_;
}

void RankDevices::enter(const Stream& first, size_t scratch_bytes) {
  for (int rank = 1; rank < size(); ++rank) {
    Place& p = place(rank);
    const MemoryLabel label("denoise: activations");
    if (!p.arena || p.arena->capacity() < scratch_bytes) {
      p.arena.reset();
      p.arena.emplace(scratch_bytes, p.gpu.get());
    }
    p.arena->rewind(0);
    p.stream = first;
    p.stream.gpu = p.gpu.get(), p.stream.memory = p.gpu.get(), p.stream.arena = &*p.arena;
    p.stream.adapters = nullptr;
    // All ranks have a profiler or none has, since it decides whether steps become graphs.
    p.stream.hooks = {.cancel = first.hooks.cancel, .hold = first.hooks.hold};
    p.stream.hooks.profiler = p.profiler ? p.profiler.get() : first.hooks.profiler;
  }
}

void RankDevices::watch(Profiler& host, DeviceTimes& times) {
  for (int rank = 1; rank < size(); ++rank)
    place(rank).profiler = std::make_unique<cuda::EventProfiler>(*place(rank).gpu, host, times, rank);
}

void RankDevices::unwatch() {
  for (Place& p : places_) {
    if (p.profiler) p.profiler->resolve();
    p.profiler.reset(), p.stream.hooks.profiler = nullptr;
  }
}

void RankDevices::leave_scratch() {
  for (Place& p : places_) p.arena.reset();
}

bool RankDevices::has_room(uint64_t bytes) {
  for (int rank = 1; rank < size(); ++rank)
    if (StreamingMemory::of(place(rank).gpu.get())->free_bytes() < bytes) return false;
  return true;
}

void RankDevices::leave(int expert, bool holds) {
  const auto i = static_cast<size_t>(expert);
  for (Place& p : places_) {
    p.stream.adapters = nullptr, p.adapters[i].release();
    if (!holds) p.transformers[i].reset();
  }
}

void RankDevices::leave_vae() {
  for (Place& p : places_) p.vae_decoder.reset();
}

void RankDevices::rewind() {
  for (Place& p : places_)
    for (BufferShelf& shelf : p.shelves) shelf.rewind();
}

void RankDevices::drop() {
  for (Place& p : places_) {
    for (runtime::StepGraph& graph : p.graphs) graph.forget();
    for (BufferShelf& shelf : p.shelves) shelf.clear();
    for (AdapterShelf& shelf : p.adapters) shelf.clear();
    p.transformers = {}, p.vae_decoder.reset();
    p.arena.reset();
  }
  team_.reset(), rows_.reset();
}

}  // namespace tachy
