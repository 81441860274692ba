#include "cuda/peer_waits.h"

#include "cuda/current_device.h"
#include "cuda/side_queue.h"

namespace tachy::cuda {
namespace {

bool is_captured(cudaStream_t queue) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(queue, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

PeerWaits::PeerWaits(std::span<Gpu* const> gpus) : gpus_(gpus.begin(), gpus.end()), turns_(gpus.size()) {
  const CurrentDevice here(gpus_.front());
  check_cuda(cudaHostAlloc(&stop_, sizeof *stop_, cudaHostAllocPortable | cudaHostAllocMapped),
             "cudaHostAlloc");
  for (Gpu* gpu : gpus_) {
    flags_.emplace_back(sizeof(PeerFlags), gpu);
    const CurrentDevice device(gpu);
    told_.push_back({make_event(), make_event()});
  }
  // Loading a kernel may stop a device, which must not happen while another rank waits for it.
  *stop_ = StopWord::kStopped;
  for (size_t rank = 0; rank < gpus_.size(); ++rank)
    barrier(static_cast<int>(rank), static_cast<cudaStream_t>(gpus_[rank]->stream()));
  for (Gpu* gpu : gpus_) gpu->synchronize();
  restart();
}

PeerWaits::~PeerWaits() {
  for (const auto& events : told_)
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  cudaFreeHost(stop_);
}

void PeerWaits::barrier(int rank, cudaStream_t queue) {
  BarrierPlan plan{.flags = {},
                   .stop = stop_,
                   .rank = rank,
                   .size = static_cast<int>(gpus_.size()),
                   .longest_ns = static_cast<uint64_t>(PeerGroup::kLongestWait * 1e9)};
  for (size_t i = 0; i < flags_.size(); ++i) plan.flags[i] = static_cast<PeerFlags*>(flags_[i].data());
  queue_barrier(plan, queue);
}

void PeerWaits::tell(int rank, cudaStream_t queue) {
  const auto i = static_cast<size_t>(rank);
  if (is_captured(queue)) return;
  check_cuda(cudaEventRecord(told_[i][static_cast<size_t>(turns_[i])], queue), "cudaEventRecord");
}

void PeerWaits::await_others(int rank, cudaStream_t queue) {
  if (is_captured(queue)) return barrier(rank, queue);
  int& turn = turns_[static_cast<size_t>(rank)];
  for (size_t p = 0; p < gpus_.size(); ++p)
    if (p != static_cast<size_t>(rank))
      check_cuda(cudaStreamWaitEvent(queue, told_[p][static_cast<size_t>(turn)], 0), "cudaStreamWaitEvent");
  turn ^= 1;
}

void PeerWaits::stop() noexcept {
  auto* const word = static_cast<volatile uint32_t*>(stop_);
  if (*word == StopWord::kGo) *word = StopWord::kStopped;
}

void PeerWaits::check() const {
  const uint32_t word = *static_cast<const volatile uint32_t*>(stop_);
  if (word == StopWord::kGo) return;
  tachy::check(word == StopWord::kStopped, ErrorCode::device,
               "rank {} has waited for more than {} s for another rank, which does not go on",
               word - StopWord::kFirstRank, PeerGroup::kLongestWait);
  fail(ErrorCode::cancelled, "cancelled");
}

void PeerWaits::restart() {
  for (size_t i = 0; i < gpus_.size(); ++i) {
    gpus_[i]->fill(flags_[i].data(), 0, sizeof(PeerFlags));
    gpus_[i]->synchronize();
    turns_[i] = 0;
  }
  *static_cast<volatile uint32_t*>(stop_) = StopWord::kGo;
}

}  // namespace tachy::cuda
