#include "cuda/peer_waits.h"

#include <chrono>
#include <thread>

#include "base/env.h"
#include "cuda/current_device.h"
#include "cuda/driver_function.h"
#include "cuda/side_queue.h"

namespace tachy::cuda {
namespace {

bool is_captured(cudaStream_t queue) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(queue, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

// The driver keeps the order of a batch.
void queue_marks(const BarrierPlan& plan, int turn, cudaStream_t queue) {
  static auto* run = driver_function<CUresult(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned)>(
      "cuStreamBatchMemOp");
  std::vector<CUstreamBatchMemOpParams> all;
  const auto add = [&](CUstreamBatchMemOpType what, const uint32_t* at, uint32_t value) {
    CUstreamBatchMemOpParams p{};
    p.operation = what;
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    if (what == CU_STREAM_MEM_OP_WAIT_VALUE_32)
      p.waitValue.address = address, p.waitValue.value = value, p.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    else
      p.writeValue.address = address, p.writeValue.value = value;
    all.push_back(p);
  };
  const auto each_other = [&](const auto& visit) {
    for (int p = 0; p < plan.size; ++p)
      if (p != plan.rank) visit(p);
  };
  PeerFlags& mine = *plan.flags[plan.rank];
  each_other([&](int p) { add(CU_STREAM_MEM_OP_WRITE_VALUE_32, &plan.flags[p]->marks[turn][plan.rank], 1); });
  each_other([&](int p) { add(CU_STREAM_MEM_OP_WAIT_VALUE_32, &mine.marks[turn][p], 1); });
  each_other([&](int p) { add(CU_STREAM_MEM_OP_WRITE_VALUE_32, &mine.marks[turn][p], 0); });
  if (all.empty()) return;
  const CUresult done = run(queue, static_cast<unsigned>(all.size()), all.data(), 0);
  check(done == CUDA_SUCCESS, ErrorCode::device, "cuStreamBatchMemOp: error {}", static_cast<int>(done));
}

PeerWaits::Way PeerWaits::asked() {
  const std::string text = env_string("TACHY_RANK_WAITS", "events");
  constexpr std::pair<const char*, Way> kNames[] = {
      {"kernel", Way::kernel}, {"room", Way::room}, {"events", Way::events}, {"marks", Way::marks}};
  for (const auto& [name, way] : kNames)
    if (text == name) return way;
  fail(ErrorCode::invalid_argument, "TACHY_RANK_WAITS: expected kernel, room, events or marks, got '{}'",
       text);
}

PeerWaits::PeerWaits(std::span<Gpu* const> gpus, Waits waits)
    : way_(waits == Waits::events ? Way::events : asked()), gpus_(gpus.begin(), gpus.end()), turns_(gpus.size()) {
  const CurrentDevice here(gpus_.front());
  check_cuda(cudaHostAlloc(&stop_, sizeof *stop_, cudaHostAllocPortable | cudaHostAllocMapped),
             "cudaHostAlloc");
  for (Gpu* gpu : gpus_) {
    flags_.emplace_back(sizeof(PeerFlags), gpu);
    const CurrentDevice device(gpu);
    told_.push_back({make_event(), make_event()});
    if (way_ != Way::kernel) fit_barriers_beside();
    if (way_ != Way::marks) continue;
    cudaStream_t queue = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), "cudaStreamCreate");
    releasing_.push_back(queue);
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
  for (cudaStream_t queue : releasing_) cudaStreamDestroy(queue);
  cudaFreeHost(stop_);
}

BarrierPlan PeerWaits::plan_of(int rank) const {
  BarrierPlan plan{.flags = {},
                   .stop = stop_,
                   .rank = rank,
                   .size = static_cast<int>(gpus_.size()),
                   .longest_ns = static_cast<uint64_t>(PeerGroup::kLongestWait * 1e9)};
  for (size_t i = 0; i < flags_.size(); ++i)
    plan.flags[i] = static_cast<PeerFlags*>(const_cast<void*>(flags_[i].data()));
  return plan;
}

void PeerWaits::barrier(int rank, cudaStream_t queue) { queue_barrier(plan_of(rank), queue); }

void PeerWaits::tell(int rank, cudaStream_t queue) {
  const auto i = static_cast<size_t>(rank);
  if (way_ == Way::events && !is_captured(queue))
    check_cuda(cudaEventRecord(told_[i][static_cast<size_t>(turns_[i])], queue), "cudaEventRecord");
}

void PeerWaits::await_others(int rank, cudaStream_t queue) {
  int& turn = turns_[static_cast<size_t>(rank)];
  if (way_ == Way::marks) {
    queue_marks(plan_of(rank), turn, queue);
  } else if (way_ == Way::events && !is_captured(queue)) {
    for (size_t p = 0; p < gpus_.size(); ++p)
      if (p != static_cast<size_t>(rank))
        check_cuda(cudaStreamWaitEvent(queue, told_[p][static_cast<size_t>(turn)], 0), "cudaStreamWaitEvent");
  } else {
    return barrier(rank, queue);
  }
  turn ^= 1;
}

bool PeerWaits::busy() const noexcept {
  for (cudaStream_t queue : watched_)
    if (cudaStreamQuery(queue) == cudaErrorNotReady) return true;
  return false;
}

// Queues that wait for marks do not look at the word, so the marks are written until nothing waits.
void PeerWaits::stop() noexcept {
  auto* const word = static_cast<volatile uint32_t*>(stop_);
  if (*word == StopWord::kGo) *word = StopWord::kStopped;
  if (way_ != Way::marks) return;
  const auto begin = std::chrono::steady_clock::now();
  while (busy() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) {
    for (size_t i = 0; i < gpus_.size(); ++i) {
      PeerFlags& flags = *static_cast<PeerFlags*>(flags_[i].data());
      cudaMemsetAsync(&flags.marks, 1, sizeof flags.marks, releasing_[i]);
      cudaStreamSynchronize(releasing_[i]);
    }
  }
  cudaGetLastError();
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
