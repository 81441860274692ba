// Tells the caller how far a stage is, and estimates from the time per step so far when the stage will be done. Time
// in which the run is held does not count.
#pragma once

#include "base/clock.h"
#include "request/request.h"

namespace tachy {

class StageClock {
 public:
  // `callbacks` may be null. `already` is the number of steps that an earlier process did.
  StageClock(const VideoCallbacks* callbacks, std::string stage, int64_t total, int64_t already = 0);
  void done(int64_t count);  // steps finished so far

 private:
  const VideoCallbacks* callbacks_;
  std::string stage_;
  int64_t total_, already_;
  double start_;
};

}  // namespace tachy
