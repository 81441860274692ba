// How far a talking photo of several windows is, and when all of it will be done. Stages tell of themselves alone; here their
// progress gets the window, and times of the whole:
//
//   left = steps left · step + windows left to decode · decode + windows left to go on from · between
//
// step: the mean of those done here; decode: from a window's last step to its last frame; between: from there to the next
// one's first step, which is encoding what it takes over and the keys and values of its speech. Both are the last ones
// measured, and before the first of them what their work comes to beside a step's.
#pragma once

#include <functional>

#include "resolve/resolved.h"

namespace tachy {

class TalkProgress {
 public:
  TalkProgress(const Resolved& request, const VideoPlan& plan, std::function<void(const Progress&)> to);

  void begin(int64_t window) { window_ = window; }
  void tell(const Progress& progress, double now);  // now: in seconds, of any clock that only goes on

 private:
  void step(const Progress& p, double now);
  void frames(const Progress& p, double now);
  double left() const;
  double of_step(double measured, double work) const { return measured >= 0 ? measured : work * step_; }

  const TalkWindows talk_;
  const int64_t steps_;  // of a window
  const std::function<void(const Progress&)> to_;
  double decode_work_ = 0, between_work_ = 0;  // in steps
  int64_t window_ = 0;
  std::string stage_;       // the last of a window's that has told
  double start_ = -1;       // of the first window here
  double last_ = 0;         // when a step or a window's last frame was done
  int64_t steps_left_ = 0;  // of all windows
  double decoded_ = 0;      // the share of this window
  double step_ = -1, decode_ = -1, between_ = -1;
  double step_seconds_ = 0;
  int64_t step_count_ = 0;
};

}  // namespace tachy
