// Keeps the host from queueing work further ahead than kAheadMs of the device's time: queued work cannot be
// taken back, so a cancelled run still has to wait for it.
//
// The work between two marks is timed by events. As many of the longest recent pieces may be outstanding as
// fit into that time, but at least one: the device computes it while the host queues the next. If the host is
// the slower one, it never waits.
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

  void mark();  // a piece of work ends here; waits if needed. While a graph is captured it does nothing

 private:
  static constexpr uint64_t kEvents = 64;
  static constexpr float kAheadMs = 100;

  cudaEvent_t& event(uint64_t mark) { return events_[mark % kEvents]; }
  void passed();  // notes that mark number done_ has passed
  uint64_t allowed() const;

  cudaStream_t queue_;
  std::array<cudaEvent_t, kEvents> events_{};  // made on first use
  std::array<bool, kEvents> ahead_{};          // whether the mark before had not passed when this one was
                                               // made
  std::array<float, kEvents> took_{};          // ms since the mark before; 0 if not known
  uint64_t made_ = 0, done_ = 0;               // number of marks made, and of those known to have passed
};

}  // namespace tachy::cuda
