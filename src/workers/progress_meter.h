// How far a job is, by the seconds that its plan gives to each stage, over all windows and blocks:
//
//   percent = 100 · Σ seconds of a stage · its finished share / Σ seconds of all stages
//
// It never goes back and stays below 100 until somebody has the file. What is left is told in seconds: what
// the plan leaves, times how much slower or faster this very run is than planned.
#pragma once

#include <vector>

#include "workers/rates.h"

namespace tachy::workers {

class ProgressMeter {
 public:
  // `least` is what was told of this job before: a run that goes on does not tell less.
  ProgressMeter(const VideoPlan& plan, Rate rate, int least);

  void tell(const Progress& progress, double now);  // `now` is in seconds of any monotonic clock
  int percent() const { return percent_; }
  double seconds_left() const;  // as of the last report

  // The seconds in each stage so far. Between the last report of a stage and the first one of the next, no
  // stage computes.
  const Seen& seen() const { return seen_; }

 private:
  struct Stage {
    std::string name;
    double seconds = 0, share = 0;  // share: of it that is finished
    bool told = false;
  };
  double done_seconds() const;

  std::vector<Stage> stages_;
  Rate rate_;
  double all_ = 0;         // Σ seconds
  double first_ = -1;      // when this run began to compute
  double before_ = 0;      // seconds of the plan that took no time here
  double loading_ = 0;     // seconds of loading, which no plan has
  double last_ = -1;       // the time of the last report
  std::string last_name_;  // its stage
  int percent_;
  Seen seen_;
};

}  // namespace tachy::workers
