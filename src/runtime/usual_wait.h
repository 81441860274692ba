// A sleeping wait for something that takes about the same time every time, such as the frames of a block. A
// driver's own sleeping wait ends by an interrupt, which costs a thread of the driver 100 us and this one 50,
// and comes 0.3 ms late (bench/notes/worlds_gpu.md). Here the thread sleeps until the shortest recent wait
// would have ended, and then checks, with naps in between. If the waits are alike, three or four checks of a
// few microseconds are enough.
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

  // Waits until `arrived` returns true; its exceptions pass through. `since` is the time on the clock when
  // the awaited work began. The duration from then until its arrival is remembered for later waits. Returns
  // the time at the end.
  double until(const std::function<bool()>& arrived, double since);
  double now() const { return clock_.now(); }

 private:
  static constexpr uint64_t kKept = 8, kFewest = 4;
  static constexpr double kEarly = 100e-6, kNap = 50e-6, kLongestNap = 1e-3, kGrowth = 1.25;

  // Returns the least seconds to expect, by the last waits, or 0 before there are enough of them.
  double least() const;
  void remember(double took, bool looked_too_late);

  Clock clock_;
  std::array<double, kKept> took_{};
  uint64_t waits_ = 0;
  int too_late_ = 0;  // consecutive waits whose work had arrived before the first check
};

}  // namespace tachy::runtime
