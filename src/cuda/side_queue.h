// A queue beside the compute stream, on which copies run while kernels compute. Work queued here after fork()
// waits for the work that the compute stream held then; work queued there after join() waits for the work
// that this one held then.
#pragma once

#include "base/stress.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

// With TACHY_STRESS, delays the queue's later work on the device. May be captured.
inline void stress_queue(cudaStream_t queue) {
  if (stress_seed() == 0) return;
  check_cuda(cudaLaunchHostFunc(
                 queue, [](void*) { stress_pause(); }, nullptr),
             "TACHY_STRESS");
}

inline cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

class SideQueue {
 public:
  explicit SideQueue(cudaStream_t compute) : compute_(compute) {
    check_cuda(cudaStreamCreateWithFlags(&queue_, cudaStreamNonBlocking), "cudaStreamCreate");
    fork_ = make_event(), join_ = make_event();
  }
  ~SideQueue() {
    cudaEventDestroy(fork_), cudaEventDestroy(join_);
    cudaStreamDestroy(queue_);
  }
  SideQueue(const SideQueue&) = delete;
  SideQueue& operator=(const SideQueue&) = delete;

  cudaStream_t get() const { return queue_; }
  // Makes later work on this queue wait for the work that the compute stream holds now.
  void fork() {
    check_cuda(cudaEventRecord(fork_, compute_), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(queue_, fork_, 0), "cudaStreamWaitEvent");
  }
  // Makes later work on the compute stream wait for the work on this queue.
  void join(const char* what) {
    check_cuda(cudaEventRecord(join_, queue_), what);
    check_cuda(cudaStreamWaitEvent(compute_, join_, 0), what);
  }

 private:
  cudaStream_t compute_, queue_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
};

}  // namespace tachy::cuda
