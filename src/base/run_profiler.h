// A profile of a run that may use a GPU: the host's ranges, and the same ranges by the GPU's clock, which a
// cuda::EventProfiler (cuda/event_profiler.h) adds once it has read its events.
#pragma once

#include "base/profiler.h"

namespace tachy {

// The lane of GPU n's events is kDeviceLane + n.
inline constexpr int kDeviceLane = 1 << 20;
inline bool on_device(const ProfileEvent& event) { return event.lane >= kDeviceLane; }

// What takes a device's times.
class DeviceTimes {
 public:
  virtual ~DeviceTimes() = default;
  virtual double now_us() const = 0;  // the clock that the events' times are on
  virtual void add_device_event(const ProfileEvent& event) = 0;
};

class RunProfiler final : public HostProfiler, public DeviceTimes {
 public:
  double now_us() const override;
  void add_device_event(const ProfileEvent& event) override;
  // The host's, then the devices', each by lane and start.
  std::vector<ProfileEvent> all_events() const;

 private:
  // HostProfiler's beginning to within the nanoseconds between the two constructors.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<ProfileEvent> device_;
};

}  // namespace tachy
