// A profile of a run that may use a GPU: ranges timed by the host's clock, and the same ranges timed by the
// GPU's. A cuda::EventProfiler (cuda/event_profiler.h) adds the GPU's once it has read its events.
#pragma once

#include "base/profiler.h"

namespace tachy {

// Events of GPU n have lane kDeviceLane + n; where several ranks have a GPU, those of rank r are kMostGpus · r further.
inline constexpr int kDeviceLane = 1 << 20, kMostGpus = 1 << 10;
inline bool on_device(const ProfileEvent& event) { return event.lane >= kDeviceLane; }
inline int device_lane(int gpu, int rank) { return kDeviceLane + kMostGpus * rank + gpu; }
// Returns which of a run's ranks an event belongs to. What is not divided belongs to rank 0.
inline int rank_of(const ProfileEvent& event) {
  if (on_device(event)) return (event.lane - kDeviceLane) / kMostGpus;
  return event.lane > kRankLane ? event.lane - kRankLane : 0;
}

// Receives the times of a device.
class DeviceTimes {
 public:
  virtual ~DeviceTimes() = default;
  virtual double now_us() const = 0;  // the clock that times the events
  virtual void add_device_event(const ProfileEvent& event) = 0;
};

class RunProfiler final : public HostProfiler, public DeviceTimes {
 public:
  double now_us() const override;
  void add_device_event(const ProfileEvent& event) override;
  // The host's events and then the devices', each ordered by lane and start.
  std::vector<ProfileEvent> all_events() const;

 private:
  // The same moment as HostProfiler's start, but for the nanoseconds between the two constructors.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<ProfileEvent> device_;
};

}  // namespace tachy
