// Tells how far a talking photo of several windows is, and when all of it will be done. Stages report only on
// themselves; this adds the window and the times of the whole:
//
//   left = steps left · step + windows left to decode · decode + windows left to go on from · between
//
// step: the mean of those done here; decode: from a window's last step to its last frame; between: from there
// to the next window's first step, which covers encoding the frames that it takes over and the keys and
// values of its speech. Decode and between are the values measured last; before the first measurement their
// work relative to a step's is used.
#pragma once

#include <functional>

#include "resolve/resolved.h"

namespace tachy {

class TalkProgress {
 public:
  TalkProgress(const Resolved& request, const VideoPlan& plan, std::function<void(const Progress&)> to);

  void begin(int64_t window) { window_ = window; }
  void tell(const Progress& progress, double now);  // `now` is in seconds of any monotonic clock

 private:
  void step(const Progress& p, double now);
  void frames(const Progress& p, double now);
  double left() const;
  double of_step(double measured, double work) const { return measured >= 0 ? measured : work * step_; }

  const TalkWindows talk_;
  const int64_t steps_;  // per window
  const std::function<void(const Progress&)> to_;
  double decode_work_ = 0, between_work_ = 0;  // in steps
  int64_t window_ = 0;
  std::string stage_;       // the last stage of a window that reported
  double start_ = -1;       // when the first window that is made here began
  double last_ = 0;         // when a step or a window's last frame was done
  int64_t steps_left_ = 0;  // steps that are left in all windows
  double decoded_ = 0;      // the decoded share of this window
  double step_ = -1, decode_ = -1, between_ = -1;
  double step_seconds_ = 0;
  int64_t step_count_ = 0;
};

}  // namespace tachy
