#include "cuda/peers.h"

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <optional>
#include <vector>

#include "cuda/current_device.h"
#include "cuda/peer_waits.h"
#include "cuda/runtime.h"
#include "cuda/side_queue.h"

namespace tachy::cuda {
namespace {

// Rows of at least so many bytes in all go by the copy engines, which leave the multiprocessors alone; shorter
// ones are there sooner by a kernel. bench/notes/several_gpus.md has the figures.
constexpr size_t kEngineBytes = size_t{8} << 20;
constexpr int kPushBlocks = 64;

// Lets `from` reach the memory of `to`.
void open_way(const GpuInfo& from, const GpuInfo& to) {
  int possible = 0;
  check_cuda(cudaDeviceCanAccessPeer(&possible, from.index, to.index), "cudaDeviceCanAccessPeer");
  check(possible == 1, ErrorCode::unsupported,
        "cuda:{} ({}) cannot reach the memory of cuda:{} ({}), so they cannot share a clip; `device` runs on "
        "one of them",
        from.index, from.name, to.index, to.name);
  const CurrentDevice here(from.index);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();  // clears the status, which is not an error
  else
    check_cuda(status, "cudaDeviceEnablePeerAccess");
}

// Does so for all pairs. If two that cannot reach each other are to exchange, join_peers() says so.
void open_ways(std::span<const GpuInfo> gpus) noexcept {
  for (const GpuInfo& a : gpus)
    for (const GpuInfo& b : gpus) try {
        if (a.index != b.index) open_way(a, b);
      } catch (const Error&) {
        cudaGetLastError();  // clears the status
      }
}

// A queue beside a rank's own. Its kernels, which are barriers, go before those of the rank's own queue.
class Beside {
 public:
  explicit Beside(const Gpu& gpu) : own_(static_cast<cudaStream_t>(gpu.stream())) {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    check_cuda(cudaStreamCreateWithPriority(&queue_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
    fork_ = make_event();
    for (cudaEvent_t& event : done_) event = make_event();
  }
  ~Beside() {
    settle();
    cudaEventDestroy(fork_);
    for (cudaEvent_t event : done_) cudaEventDestroy(event);
    cudaStreamDestroy(queue_);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  cudaStream_t now() const { return aside_ ? queue_ : own_; }  // where the rank queues
  void step_aside() {
    check_cuda(cudaEventRecord(fork_, own_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(queue_, fork_, 0), "cudaStreamWaitEvent");
    stress_queue(queue_);
    aside_ = true;
  }
  int step_back() {
    stress_queue(queue_);
    aside_ = false, last_ = (last_ + 1) % PeerGroup::kNumbers;
    check_cuda(cudaEventRecord(done_[static_cast<size_t>(last_)], queue_), "cudaEventRecord");
    return last_;
  }
  void await(int number) {
    check_cuda(cudaStreamWaitEvent(own_, done_.at(static_cast<size_t>(number)), 0), "cudaStreamWaitEvent");
  }
  void settle() const noexcept { cudaStreamSynchronize(queue_); }

 private:
  cudaStream_t own_, queue_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  std::array<cudaEvent_t, PeerGroup::kNumbers> done_{};
  int last_ = -1;
  bool aside_ = false;
};

class CudaPeers final : public PeerGroup {
 public:
  explicit CudaPeers(std::span<Gpu* const> ranks) : gpus_(ranks.begin(), ranks.end()) {
    tachy::check(!gpus_.empty() && gpus_.size() <= size_t{kMostRanks}, ErrorCode::internal, "peers: {} ranks",
                 gpus_.size());
    for (const Gpu* a : gpus_)
      for (const Gpu* b : gpus_)
        if (a->info().index != b->info().index) open_way(a->info(), b->info());
    waits_.emplace(gpus_);
    for (Gpu* gpu : gpus_) {
      const CurrentDevice device(gpu);
      beside_.emplace_back(*gpu);
    }
  }
  ~CudaPeers() override {
    for (size_t i = 0; i < gpus_.size(); ++i) {
      const CurrentDevice here(gpus_[i]);
      cudaStreamSynchronize(static_cast<cudaStream_t>(gpus_[i]->stream()));
    }
    settle();
  }
  CudaPeers(const CudaPeers&) = delete;
  CudaPeers& operator=(const CudaPeers&) = delete;

  int size() const override { return static_cast<int>(gpus_.size()); }

  void barrier(int rank) override {
    const CurrentDevice here(&gpu_of(rank));
    waits_->barrier(rank, now(rank));
  }
  void tell(int rank) override {
    const CurrentDevice here(&gpu_of(rank));
    waits_->tell(rank, now(rank));
  }
  void await_others(int rank) override {
    const CurrentDevice here(&gpu_of(rank));
    waits_->await_others(rank, now(rank));
  }

  void push(int rank, std::span<const PeerRows> rows, Way way) override {
    Gpu& gpu = gpu_of(rank);
    const CurrentDevice here(&gpu);
    size_t bytes = 0;
    for (const PeerRows& r : rows) bytes += r.own ? 0 : r.width * r.rows;
    PushPlan plan{};
    for (const PeerRows& r : rows) {
      if (r.width * r.rows == 0) continue;
      if (by_engine(r, bytes, way)) {
        check_cuda(r.rows == 1 ? cudaMemcpyAsync(r.to, r.from, r.width, cudaMemcpyDefault, now(rank))
                               : cudaMemcpy2DAsync(r.to, r.to_pitch, r.from, r.from_pitch, r.width, r.rows,
                                                   cudaMemcpyDefault, now(rank)),
                   "copy to a rank");
        continue;
      }
      if (plan.count == PushPlan::kMostPieces) flush(plan, now(rank));
      plan.pieces[plan.count++] = {.to = r.to,
                                   .from = r.from,
                                   .width = static_cast<uint32_t>(r.width / 16),
                                   .rows = static_cast<uint32_t>(r.rows),
                                   .to_pitch = r.to_pitch,
                                   .from_pitch = r.from_pitch,
                                   .first = plan.units};
      plan.units += r.width / 16 * r.rows;
    }
    flush(plan, now(rank));
  }

  void step_aside(int rank) override {
    const CurrentDevice here(&gpu_of(rank));
    beside_.at(static_cast<size_t>(rank)).step_aside();
  }
  int step_back(int rank) override {
    const CurrentDevice here(&gpu_of(rank));
    return beside_.at(static_cast<size_t>(rank)).step_back();
  }
  void await(int rank, int number) override {
    const CurrentDevice here(&gpu_of(rank));
    beside_.at(static_cast<size_t>(rank)).await(number);
  }
  void settle() noexcept override {
    for (const Beside& b : beside_) b.settle();
  }

  void stop() noexcept override { waits_->stop(); }
  void check() const override { waits_->check(); }
  void restart() override { waits_->restart(); }

 private:
  cudaStream_t now(int rank) const { return beside_.at(static_cast<size_t>(rank)).now(); }
  Gpu& gpu_of(int rank) { return *gpus_.at(static_cast<size_t>(rank)); }
  // A kernel moves units of 16 bytes; the copy engines take any row.
  static bool by_engine(const PeerRows& r, size_t bytes, Way way) {
    const bool whole = (reinterpret_cast<uintptr_t>(r.to) | reinterpret_cast<uintptr_t>(r.from) | r.width |
                        r.to_pitch | r.from_pitch) %
                           16 ==
                       0;
    if (!whole || r.rows >= uint64_t{1} << 32) return true;
    if (way == Way::all_engines) return true;
    return way == Way::by_size ? !r.own && bytes >= kEngineBytes : way == Way::engines && !r.own;
  }
  static void flush(PushPlan& plan, cudaStream_t queue) {
    if (plan.count > 0) queue_push(plan, kPushBlocks, queue);
    plan = {};
  }

  const std::vector<Gpu*> gpus_;
  std::optional<PeerWaits> waits_;
  std::deque<Beside> beside_;
};

}  // namespace

void prepare_peers(std::span<Gpu* const> gpus) noexcept {
  std::vector<GpuInfo> infos;
  for (const Gpu* gpu : gpus) infos.push_back(gpu->info());
  open_ways(infos);
}

std::shared_ptr<void> wake_peers(const std::vector<int>& gpus) noexcept try {
  const auto wake = [](int index) {
    if (cudaSetDevice(index) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) cudaGetLastError();
  };
  return std::make_shared<std::future<void>>(std::async(std::launch::async, [gpus, wake] {
    std::vector<std::future<void>> awake;
    std::vector<GpuInfo> infos;
    // The driver makes contexts one after the other, and the first GPU is the first that somebody waits for.
    for (const int index : gpus)
      if (index == gpus.front())
        wake(index);
      else
        awake.push_back(std::async(std::launch::async, wake, index));
    for (const int index : gpus) infos.emplace_back().index = index;
    for (std::future<void>& each : awake) each.get();
    open_ways(infos);
  }));
} catch (const std::exception&) {
  return nullptr;  // without threads, each is opened when it is needed
}

std::unique_ptr<PeerGroup> join_peers(std::span<Gpu* const> ranks) {
  return std::make_unique<CudaPeers>(ranks);
}

}  // namespace tachy::cuda
