// Keeps the host from queueing further ahead than kAheadMs of the device's time: what has been queued cannot
// be taken back, so it is what a cancelled run still waits for.
//
// The work between two marks is timed by events, and of the longest of late as many may be outstanding as
// fit, one at least: the device does it while the host queues the next. Where the host is the slower one
// nothing is waited for.
#pragma once

#include <array>

#include "cuda/runtime.h"

namespace tachy::cuda {

class Pacer {
 public:
  explicit Pacer(cudaStream_t queue) : queue_(queue) {}
  ~Pacer();
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;

  void mark();  // a piece of work ends here; waits. While a graph is captured: nothing.

 private:
  static constexpr uint64_t kEvents = 64;
  static constexpr float kAheadMs = 100;

  cudaEvent_t& event(uint64_t mark) { return events_[mark % kEvents]; }
  void passed();  // mark number done_
  uint64_t allowed() const;

  cudaStream_t queue_;
  std::array<cudaEvent_t, kEvents> events_{};  // made when first used
  std::array<bool, kEvents> ahead_{};          // the mark before had not passed when this one was made
  std::array<float, kEvents> took_{};          // ms since the mark before; 0: not known
  uint64_t made_ = 0, done_ = 0;               // marks made, and of these known to have passed
};

}  // namespace tachy::cuda
