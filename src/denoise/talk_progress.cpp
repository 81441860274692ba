#include "denoise/talk_progress.h"

#include <algorithm>

namespace tachy {

TalkProgress::TalkProgress(const Resolved& request, const VideoPlan& plan,
                           std::function<void(const Progress&)> to)
    : talk_(request.talk),
      steps_(request.sampler.steps()),
      to_(std::move(to)),
      steps_left_(talk_.count() * steps_) {
  const auto flops = [&](const char* stage) {
    const auto found = std::ranges::find(plan.stages, stage, &StagePlan::name);
    return found == plan.stages.end() ? 0.0 : found->flops;
  };
  const auto windows = static_cast<double>(talk_.count());
  const double step = flops("denoise") / windows / static_cast<double>(steps_);
  if (step <= 0) return;
  decode_work_ = flops("decode") / windows / step;
  between_work_ = flops("motion") / (windows - 1) / step;
}

void TalkProgress::tell(const Progress& progress, double now) {
  Progress p = progress;
  p.window = window_, p.windows = talk_.count();
  const bool windowed = p.stage == "denoise" || p.stage == "decode" || p.stage == "motion";
  if (!windowed) return to_(p);
  if (start_ < 0) start_ = last_ = now;
  if (p.stage == "denoise") step(p, now);
  if (p.stage == "decode") frames(p, now);
  stage_ = p.stage;
  p.elapsed_seconds = now - start_, p.eta_seconds = left();
  to_(p);
}

// A window's first report on its steps gives the number that were done before.
void TalkProgress::step(const Progress& p, double now) {
  if (stage_ == "denoise" && p.done > 0) {
    step_seconds_ += now - last_, ++step_count_;
    step_ = step_seconds_ / static_cast<double>(step_count_);
  } else if (!stage_.empty()) {
    between_ = now - last_;
  }
  last_ = now, decoded_ = 0;
  steps_left_ = p.total - p.done;
}

void TalkProgress::frames(const Progress& p, double now) {
  const int64_t first = talk_.first_new(window_),
                end = std::min(talk_.first(window_) + talk_.window, talk_.frames);
  // A window that was resumed after its last step has no steps of its own.
  if (stage_.empty()) steps_left_ = (talk_.count() - 1 - window_) * steps_;
  decoded_ = static_cast<double>(p.done - first) / static_cast<double>(end - first);
  if (p.done < end) return;
  decode_ = now - last_, last_ = now;
}

double TalkProgress::left() const {
  if (step_ < 0) return -1;
  const auto after = static_cast<double>(talk_.count() - 1 - window_);
  return static_cast<double>(steps_left_) * step_ + (after + 1 - decoded_) * of_step(decode_, decode_work_) +
         after * of_step(between_, between_work_);
}

}  // namespace tachy
