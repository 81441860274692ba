#include "workers/progress_meter.h"

#include <algorithm>
#include <cmath>

namespace tachy::workers {
namespace {

constexpr int kMostUnfinished = 99;
// The share of the plan's seconds by which the plan counts against what this run has shown so far.
constexpr double kTrustInPlan = 0.1;

}  // namespace

ProgressMeter::ProgressMeter(const VideoPlan& plan, Rate rate, int least)
    : rate_(std::move(rate)), percent_(std::min(least, kMostUnfinished)) {
  for (const StagePlan& stage : plan.stages)
    stages_.push_back({.name = stage.name, .seconds = rate_.seconds(stage)});
  for (const Stage& stage : stages_) all_ += stage.seconds;
  if (all_ > 0) return;
  for (Stage& stage : stages_) stage.seconds = 1;  // a plan without times
  all_ = static_cast<double>(stages_.size());
}

double ProgressMeter::done_seconds() const {
  double done = 0;
  for (const Stage& stage : stages_) done += stage.seconds * stage.share;
  return done;
}

void ProgressMeter::tell(const Progress& p, double now) {
  const bool goes_on = p.stage == last_name_;
  if (goes_on && last_ >= 0) seen_.stages[p.stage] += now - last_;
  if (p.stage == "load") {
    seen_.loaded = true;
    if (last_ >= 0) loading_ += now - last_;
  }
  const bool first = first_ < 0;
  if (first) first_ = now;
  last_ = now, last_name_ = p.stage;

  const auto here = std::ranges::find(stages_, p.stage, &Stage::name);
  if (here == stages_.end()) return;
  // Stages before it that have never told anything were skipped, or are done.
  for (auto stage = stages_.begin(); stage != here; ++stage)
    if (!stage->told && stage->share < 1) stage->share = 1, before_ += stage->seconds;
  const double share = p.total > 0 ? static_cast<double>(p.done) / static_cast<double>(p.total) : 0;
  here->share = std::max(here->share, std::clamp(share, 0.0, 1.0));
  // The first report of a stage in a run that goes on tells what an earlier run did.
  if (!here->told) before_ += here->seconds * here->share;
  here->told = true;
  if (all_ > 0) {
    const int percent = static_cast<int>(std::floor(100 * done_seconds() / all_));
    percent_ = std::clamp(percent, percent_, std::max(kMostUnfinished, percent_));
  }
}

double ProgressMeter::seconds_left() const {
  const double done = done_seconds(), left = std::max(all_ - done, 0.0);
  const double trust = kTrustInPlan * all_;
  const double here = std::max(done - before_, 0.0);
  const double spent = first_ >= 0 ? std::max(last_ - first_ - loading_, 0.0) : 0;
  const double pace = trust + here > 0 ? (trust + spent) / (trust + here) : 1;
  return left * pace + rate_.overhead / 2;
}

}  // namespace tachy::workers
