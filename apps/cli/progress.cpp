#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/env.h"

namespace tachy::cli {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProgressLine::Mode ProgressLine::choose(bool json, bool quiet) {
  if (json) return Mode::json;
  return quiet || !isatty(STDERR_FILENO) ? Mode::quiet : Mode::terminal;
}

void ProgressLine::update(const Progress& p) {
  if (mode_ == Mode::quiet) return;
  if (mode_ == Mode::json) {
    const nlohmann::json line = {
        {"event", "progress"},
        {"stage", p.stage},
        {"done", p.done},
        {"total", p.total},
        {"elapsed_seconds", p.elapsed_seconds},
        {"eta_seconds", p.eta_seconds < 0 ? nlohmann::json() : nlohmann::json(p.eta_seconds)}};
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
    return;
  }
  // At most ten redraws a second, but every first and last state of a stage.
  const double time = now();
  if (p.done != p.total && p.stage == last_stage_ && time - last_draw_ < 0.1) return;
  last_draw_ = time, last_stage_ = p.stage;
  constexpr int kWidth = 24;
  const int filled = p.total > 0 ? static_cast<int>(p.done * kWidth / p.total) : 0;
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  const std::string eta =
      p.eta_seconds >= 0 && p.done < p.total ? ", " + human_seconds(p.eta_seconds) + " left" : "";
  fmt::print(stderr, "\r\033[K{:<8} {} {}/{}  {}{}", p.stage, bar, p.done, p.total,
             human_seconds(p.elapsed_seconds), eta);
  shown_ = true;
  if (p.done == p.total) {
    fmt::print(stderr, "\n");
    shown_ = false;
  }
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace tachy::cli
