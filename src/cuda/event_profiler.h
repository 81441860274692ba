// Ranges by the GPU's own clock: a profiler in front of another one. begin() and end() call the other one (it
// times the host, which only queues the work) and each record an event on the compute stream; the times
// between events are those that the GPU spent. Nothing waits: events that have passed are read when many have
// gathered, the rest by resolve(). Each range is also an NVTX range of the same name, for Nsight Systems.
//
// Events inside a captured graph have no time of their own. So StepGraph runs a step directly while a stream
// has a profiler, and work that other code captures is missing from the device's times.
#pragma once

#include <memory>

#include "base/run_profiler.h"
#include "cuda/gpu.h"

namespace tachy::cuda {

class EventProfiler final : public Profiler {
 public:
  // The first three must outlive it. It waits once, to align the two clocks. Ranges of other threads than the one that
  // makes it are not timed on the GPU. A further rank has other threads, one at a time, and all its ranges are timed.
  EventProfiler(Gpu& gpu, Profiler& host, DeviceTimes& times, int rank = 0);
  ~EventProfiler() override;
  EventProfiler(const EventProfiler&) = delete;
  EventProfiler& operator=(const EventProfiler&) = delete;

  uint64_t begin(const char* name, ProfileKind kind, int64_t index) override;
  void end(uint64_t token) override;

  // Waits for the queued work and adds every closed range to `times`.
  void resolve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::cuda
