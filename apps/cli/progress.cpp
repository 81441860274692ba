#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/env.h"
#include "base/json_text.h"
#include "base/os/terminal.h"
#include "say.h"

namespace tachy::cli {
namespace {

bool is_windowed(const Progress& p) {
  return p.windows > 1 && (p.stage == "denoise" || p.stage == "decode" || p.stage == "motion");
}

}  // namespace

ProgressLine::Mode ProgressLine::choose(bool json, bool quiet) {
  if (json) return Mode::json;
  if (quiet) return Mode::quiet;
  return os::is_terminal(stderr) ? Mode::terminal : Mode::plain;
}

void ProgressLine::update(const Progress& p) {
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::plain) return update_plain(p);
  if (mode_ == Mode::json) {
    nlohmann::json event = {
        {"event", "progress"},
        {"stage", p.stage},
        {"done", p.done},
        {"total", p.total},
        {"elapsed_seconds", p.elapsed_seconds},
        {"eta_seconds", p.eta_seconds < 0 ? nlohmann::json() : nlohmann::json(p.eta_seconds)}};
    if (!device_.empty()) event["device"] = device_;
    if (p.windows > 1) event["window"] = p.window + 1, event["windows"] = p.windows;
    return say(stdout, json_line(event) + "\n");
  }
  // Redraw at most ten times a second, but show every first and last state of a stage.
  const double time = monotonic_seconds();
  if (p.done != p.total && p.stage == last_stage_ && time - last_draw_ < 0.1) return;
  last_draw_ = time, last_stage_ = p.stage;
  // The line for all windows ends with the last frame of the last window.
  const bool windowed = is_windowed(p), over = p.done == p.total && (!windowed || p.stage == "decode");
  say(stderr, fmt::format("\r\033[K{}{}", line(p), over ? "\n" : ""));
  shown_ = !over;
}

void ProgressLine::update_plain(const Progress& p) {
  const bool windowed = is_windowed(p);
  if (begun_.insert(windowed ? fmt::format("window {}", p.window) : p.stage).second) {
    heartbeat_.begin(named(windowed ? fmt::format("window {} of {} begins", p.window + 1, p.windows)
                                    : fmt::format("{} begins: {} of {}", p.stage, p.done, p.total)));
  }
  heartbeat_.update([this, p](double since) {
    Progress later = p;
    later.elapsed_seconds += since;
    if (p.eta_seconds > 0) later.eta_seconds = std::max(p.eta_seconds - since, 0.0);
    return named(plain_line(later));
  });
}

std::string ProgressLine::plain_line(const Progress& p) {
  const std::string what =
      is_windowed(p) ? fmt::format("window {} of {}, {}", p.window + 1, p.windows, p.stage) : p.stage;
  const std::string eta = p.eta_seconds > 0 ? ", " + human_seconds(p.eta_seconds) + " left" : "";
  return fmt::format("{}: {} of {} ({} %), {}{}", what, p.done, p.total,
                     p.total > 0 ? p.done * 100 / p.total : 0, human_seconds(p.elapsed_seconds), eta);
}

std::string ProgressLine::line(const Progress& p) {
  const bool windowed = is_windowed(p);
  if (windowed && p.stage == "denoise") steps_done_ = p.done, steps_ = p.total;
  // Here a resumed run began with decoding.
  if (windowed && steps_ == 0) steps_done_ = p.window + 1, steps_ = p.windows;
  const int64_t done = windowed ? steps_done_ : p.done, total = windowed ? steps_ : p.total;
  constexpr int kWidth = 24;
  const int filled = total > 0 ? static_cast<int>(done * kWidth / total) : 0;
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  const std::string eta = p.eta_seconds > 0 ? ", " + human_seconds(p.eta_seconds) + " left" : "";
  const std::string took = human_seconds(p.elapsed_seconds);
  if (!windowed) return fmt::format("{:<8} {} {}/{}  {}{}", p.stage, bar, done, total, took, eta);
  std::string doing = p.stage == "decode" ? "decoding" : "encoding what the next one takes over";
  if (p.stage == "denoise") {
    const int64_t steps = total / p.windows;
    doing = fmt::format("step {} of {}", std::min(done - p.window * steps + 1, steps), steps);
  }
  return fmt::format("window {} of {} {} {}  {}{}", p.window + 1, p.windows, bar, doing, took, eta);
}

void ProgressLine::clear() {
  heartbeat_.end();
  if (shown_) say(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tachy::cli
