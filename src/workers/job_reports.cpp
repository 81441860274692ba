// The reports of a running job: to the callers that ask for it, to the reporter, to its log, to the metrics, to the times
// that are learnt, and to the account of its owner.
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "workers/running_job.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

using nlohmann::json;

constexpr double kBetweenPreviews = 1;
constexpr int64_t kMostLogBytes = 1 << 20;

}  // namespace

void RunningJob::measured(json event) const {
  if (!shop_.options.measured) return;
  event["model"] = row_.model, event["size"] = size_;
  shop_.options.measured(event);
}

void RunningJob::tell_run(const VideoPlan& plan, double seconds) const {
  json event = {{"event", "run"},
                {"wait_seconds", std::max<int64_t>(row_.started_ms - row_.created_ms, 0) / 1e3},
                {"seconds", seconds},
                {"planned_seconds", row_.planned_seconds},
                {"planned_bytes", plan.peak_bytes}};
  // Another job beside it would be in the figure.
  if (alone_ && seen_bytes_ > 0) event["seen_bytes"] = seen_bytes_;
  measured(std::move(event));
}

void RunningJob::learn(const std::string& key, const VideoPlan& plan, double seconds) {
  Seen seen;
  {
    const std::lock_guard lock(mutex_);
    seen = meter_->seen();
  }
  seen.all = seconds;
  if (alone_ && !resumed_) shop_.rates.learn(key, plan, seen);
}

// A video that is not complete has used time alone.
queue::Usage RunningJob::used(bool completed) const {
  queue::Usage out{.seconds = std::max(computing_seconds() - begun_, 0.0)};
  const json facts = parsed_or_discarded(row_.facts);
  if (!completed || !facts.is_object() || !facts.contains("width") || !facts.contains("height")) return out;
  out.frames = facts.value("frames", int64_t{0});
  out.pixels = facts["width"].get<double>() * facts["height"].get<double>() * static_cast<double>(out.frames);
  return out;
}

// The job has been given back already, so what goes wrong here is only said.
void RunningJob::account_for_interruption() const try {
  shop_.table.add_usage(row_.owner, row_.model, used(false));
} catch (const Error& e) {
  warn("the seconds of an interrupted run are not counted: {}", e.message());
}

void RunningJob::encoded(double seconds) {
  measured({{"event", "step"}, {"stage", "encode"}, {"seconds", seconds}});
}

Live RunningJob::live() const {
  const std::lock_guard lock(mutex_);
  Live out;
  out.stage = last_.stage.empty() ? "prepare" : last_.stage;
  out.done = last_.done, out.total = last_.total;
  out.eta_seconds = meter_ ? meter_->seconds_left() : row_.planned_seconds > 0 ? row_.planned_seconds : -1;
  out.interrupted = hold_ || gives_back(why_.load());
  return out;
}

void RunningJob::event(const json& event, const std::string& text) {
  if (event.value("event", "") == "resume") resumed_ = event.value("step", 0) > 0 || event.contains("window");
  if (event.value("event", "") != "done") notice(text);
}

// One line for each notice, after the time. A log that is large enough stays as it is.
void RunningJob::notice(const std::string& text) {
  std::ofstream log(folder_.log(), std::ios::app);
  if (log.tellp() > kMostLogBytes) return;
  log << utc_time(wall_clock_ms()) << ' ' << text << '\n';
}

void RunningJob::progress(const Progress& p) {
  const double now = computing_seconds();
  const bool stepped = p.done > 0 && last_stage_ == p.stage, another = last_stage_ != p.stage;
  if (stepped && (p.stage == "denoise" || p.stage == "decode"))
    measured({{"event", "step"}, {"stage", p.stage}, {"seconds", now - last_step_}});
  last_step_ = now, last_stage_ = p.stage;
  ProgressNote note{.stage = p.stage, .done = p.done, .total = p.total};
  {
    const std::lock_guard lock(mutex_);
    meter_->tell(p, now);
    last_ = p;
    note.eta_seconds = meter_->seconds_left(), note.percent = meter_->percent();
  }
  shop_.reporter.progress(row_.id, std::move(note));
  if (another && shop_.options.presence) shop_.options.presence->announce_now();
  if (makes_no_more(p)) stop_keeping();
}

void RunningJob::can_go_on(const std::string& text) {
  if (!text.empty()) going_on_ = text;
}

void RunningJob::preview(const RgbImage& picture, int) {
  const double now = monotonic_seconds();
  if (last_preview_ > 0 && now - last_preview_ < kBetweenPreviews) return;
  last_preview_ = now;
  const int number = ++previews_;
  shop_.reporter.preview(row_.id, {.rgb = {picture.rgb.begin(), picture.rgb.end()},
                                   .width = picture.width,
                                   .height = picture.height,
                                   .number = number,
                                   .folder = folder_});
}

}  // namespace tachy::workers
