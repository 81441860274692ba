// A profile of a run that may use a GPU: the host's ranges, and the same ranges by the GPU's clock. A
// cuda::EventProfiler (cuda/event_profiler.h) adds the latter once it has read its events.
#pragma once

#include "base/profiler.h"

namespace tachy {

// The lane of GPU n's events is kDeviceLane + n.
inline constexpr int kDeviceLane = 1 << 20;
inline bool on_device(const ProfileEvent& event) { return event.lane >= kDeviceLane; }

// Receives the times of a device.
class DeviceTimes {
 public:
  virtual ~DeviceTimes() = default;
  virtual double now_us() const = 0;  // the clock of the events' times
  virtual void add_device_event(const ProfileEvent& event) = 0;
};

class RunProfiler final : public HostProfiler, public DeviceTimes {
 public:
  double now_us() const override;
  void add_device_event(const ProfileEvent& event) override;
  // The host's events, then the devices', each by lane and start.
  std::vector<ProfileEvent> all_events() const;

 private:
  // Equals HostProfiler's start, except for the nanoseconds between the two constructors.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<ProfileEvent> device_;
};

}  // namespace tachy
