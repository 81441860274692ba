#include "cuda/pacer.h"

#include <algorithm>

namespace tachy::cuda {

Pacer::~Pacer() {
  for (cudaEvent_t event : events_)
    if (event) cudaEventDestroy(event);
}

void Pacer::mark() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(queue_, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) return;
  const auto collect = [&] {
    while (done_ < made_) {
      const cudaError_t reached = cudaEventQuery(event(done_));
      if (reached == cudaErrorNotReady) {
        cudaGetLastError();  // clears the status, which is not an error
        return;
      }
      check_cuda(reached, "an earlier kernel");
      passed();
    }
  };
  collect();
  // A waiting thread sleeps, because the piece for which it waits takes milliseconds.
  if (!event(made_))
    check_cuda(cudaEventCreateWithFlags(&event(made_), cudaEventBlockingSync), "cudaEventCreate");
  ahead_[made_ % kEvents] = done_ < made_;
  check_cuda(cudaEventRecord(event(made_), queue_), "cudaEventRecord");
  ++made_;
  while (made_ - done_ > allowed()) {
    check_cuda(cudaEventSynchronize(event(done_)), "an earlier kernel");
    passed();
  }
}

void Pacer::passed() {
  float& ms = took_[done_ % kEvents];
  ms = 0;
  // If the mark before had passed, the device may have been idle for a while.
  if (ahead_[done_ % kEvents])
    check_cuda(cudaEventElapsedTime(&ms, event(done_ - 1), event(done_)), "cudaEventElapsedTime");
  ++done_;
}

uint64_t Pacer::allowed() const {
  const float longest = *std::max_element(took_.begin(), took_.end());
  const float fit = longest > 0 ? kAheadMs / longest : 0;
  return fit >= static_cast<float>(kEvents - 2) ? kEvents - 2
                                                : std::max<uint64_t>(1, static_cast<uint64_t>(fit));
}

}  // namespace tachy::cuda
