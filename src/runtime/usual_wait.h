// Waiting, asleep, for something that takes about as long every time: a block's frames, of which a device makes one after the
// other. A driver's own sleeping wait ends by an interrupt, which costs a thread of the driver 100 us and this one 50, and comes
// 0.3 ms late (bench/notes/worlds_gpu.md). Here the thread sleeps until the shortest of the last waits would have ended, and then
// looks, with naps between: three or four looks of a few microseconds where waits are alike.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

namespace tachy::runtime {

class UsualWait {
 public:
  struct Clock {
    std::function<double()> now;  // seconds
    std::function<void(double seconds)> sleep;
  };
  static Clock system_clock();

  explicit UsualWait(Clock clock = system_clock()) : clock_(std::move(clock)) {}

  // Returns when `arrived` says so; what it throws passes through. `since`, a time of the clock, is when what is waited for
  // began: how long it takes from there is what is remembered. The time of the return.
  double until(const std::function<bool()>& arrived, double since);
  double now() const { return clock_.now(); }

 private:
  static constexpr uint64_t kKept = 8, kFewest = 4;
  static constexpr double kEarly = 100e-6, kNap = 50e-6, kLongestNap = 1e-3, kGrowth = 1.25;

  // Seconds that it takes at the least, by the last waits; 0 before there are enough of them.
  double least() const;
  void remember(double took, bool looked_too_late);

  Clock clock_;
  std::array<double, kKept> took_{};
  uint64_t waits_ = 0;
  int too_late_ = 0;  // waits in a row that had ended before the first look
};

}  // namespace tachy::runtime
