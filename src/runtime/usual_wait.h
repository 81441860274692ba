// A sleeping wait for something that takes about as long every time, such as a block's frames, of which a
// device makes one after the other. A driver's own sleeping wait ends by an interrupt, which costs a thread
// of the driver 100 us and this one 50, and comes 0.3 ms late (bench/notes/worlds_gpu.md). Here the thread
// sleeps until the shortest of the recent waits would have ended, and then checks, with naps in between: that
// is three or four checks of a few microseconds if the waits are alike.
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

  // Waits until `arrived` returns true, and lets its exceptions through. `since`, a time of the
  // clock, is when the awaited thing began; the time from then until it arrives is remembered.
  // Returns the time at its end.
  double until(const std::function<bool()>& arrived, double since);
  double now() const { return clock_.now(); }

 private:
  static constexpr uint64_t kKept = 8, kFewest = 4;
  static constexpr double kEarly = 100e-6, kNap = 50e-6, kLongestNap = 1e-3, kGrowth = 1.25;

  // The least seconds that it takes, judging by the last waits; 0 before there are enough of them.
  double least() const;
  void remember(double took, bool looked_too_late);

  Clock clock_;
  std::array<double, kKept> took_{};
  uint64_t waits_ = 0;
  int too_late_ = 0;  // consecutive waits that had ended before the first check
};

}  // namespace tachy::runtime
