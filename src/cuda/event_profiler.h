// Ranges by the GPU's own clock: a profiler in front of another one. begin() and end() pass on to it (what
// the host does: queueing) and record an event on the compute stream each; the times between them are what
// the GPU spent. Nothing waits: events that have passed are read when many have gathered, the rest by
// resolve(). Each range is an NVTX range of the same name, too, for Nsight Systems.
//
// Events inside a captured graph have no time of their own: StepGraph runs a step as it is while a stream
// has a profiler, and what other code captures is left out of the device's times.
#pragma once

#include <memory>

#include "base/run_profiler.h"
#include "cuda/gpu.h"

namespace tachy::cuda {

class EventProfiler final : public Profiler {
 public:
  // All three outlive it; waits once, to lay one clock on the other.
  EventProfiler(Gpu& gpu, Profiler& host, DeviceTimes& times);
  ~EventProfiler() override;
  EventProfiler(const EventProfiler&) = delete;
  EventProfiler& operator=(const EventProfiler&) = delete;

  uint64_t begin(const char* name, ProfileKind kind, int64_t index) override;
  void end(uint64_t token) override;

  // Waits for what was queued and tells `times` of every closed range.
  void resolve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::cuda
