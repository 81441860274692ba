// A run saves its state by these functions while it goes on.
#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "jobs/state_file.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;

constexpr double kShare = 20;  // the next write waits at least this many times as long as the last one took

void keep(const RunStateView& state, RunState& to) {
  const auto copy = [](std::span<const float> from, std::vector<float>& values) {
    values.assign(from.begin(), from.end());
  };
  copy(state.latents, to.latents), copy(state.motion, to.motion);
  to.solver.resize(state.solver.size());
  for (size_t i = 0; i < state.solver.size(); ++i) copy(state.solver[i], to.solver[i]);
  to.generator.assign(state.generator.begin(), state.generator.end());
  to.step = state.step, to.frames = state.frames, to.window = state.window, to.windows = state.windows;
}

RunStateView view_of(const RunState& state, int64_t steps) {
  RunStateView view{state.step,   steps,         state.latents, {},          state.generator,
                    state.window, state.windows, state.frames,  state.motion};
  view.solver.assign(state.solver.begin(), state.solver.end());
  return view;
}

}  // namespace

// The last step of a clip or window is saved unless the run was short, because decoding may take long, too.
// Step 0 lies between two windows. With 0 seconds every step is saved, whatever the cost.
bool StateFile::due(const RunPlace& place) const {
  if (place.step == 0) return true;
  const bool final = place.step == place.steps;
  const double wait =
      final || every_seconds_ == 0 ? every_seconds_ : std::max(every_seconds_, cost_ * kShare);
  return monotonic_seconds() - (final ? start_ : last_) >= wait;
}

void StateFile::save(const RunStateView& state) {
  std::map<std::string, std::string> about{
      {"settings", json_line(settings_)}, {"model", model()}, {"output", output_name_}};
  if (state.window > 0) about["window_files"] = windows_.list().dump();
  write_run_state(path_, state, about);
}

// Between two windows the state mentions the last one's file, so it is written after that.
void StateFile::save_aside(const RunStateView& given) {
  std::error_code ec;
  if (given.step == 0 && !saved_) fs::remove(path_, ec);  // the files that it mentions are about to change
  if (model_.empty() && !coming_model_.valid())
    coming_model_ = std::async(std::launch::async | std::launch::deferred, ask_model_).share();
  try {
    keep(given, aside_);
  } catch (const std::bad_alloc&) {
    return give_up(Error(ErrorCode::io, "there is no memory for a copy of it"));
  }
  // Without another thread, settle() does it.
  saving_ = std::async(std::launch::async | std::launch::deferred, [this, steps = given.steps] {
    if (aside_.step == 0) windows_.complete();
    const double begin = monotonic_seconds();
    save(view_of(aside_, steps));
    return monotonic_seconds() - begin;
  });
  last_ = monotonic_seconds();
}

void StateFile::settle() {
  if (!saving_.valid()) return;
  try {
    cost_ = saving_.get();
    saved_ = {aside_.step, aside_.window, aside_.windows};
  } catch (const Error& e) {
    give_up(e);
  }
}

void StateFile::give_up(const Error& e) {
  if (e.code() != ErrorCode::io) throw;
  broken_ = true;
  windows_.give_up();
  warn("the state for `resume` cannot be saved{}; the run goes on without it: {}",
       saved_ ? fmt::format(" ({} stays saved)", saved()) : "", e.message());
}

// The fingerprint takes a fifth of a second of a large model, for which the GPU should not wait.
bool StateFile::wants(const RunPlace& place) {
  window_ = place.window, count_ = place.windows;
  if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) settle();
  if (broken_) return false;
  const bool soon = monotonic_seconds() - start_ >= every_seconds_ / 4;
  if (soon && model_.empty() && !coming_model_.valid())
    coming_model_ = std::async(std::launch::async, ask_model_).share();
  return keeps_last_ || due(place);
}

void StateFile::step(const RunStateView& state) {
  const RunPlace place{state.step, state.steps, state.window, state.windows};
  if (!wants(place)) return;
  if (!due(place)) return remember(state);
  unsaved_ = false;
  settle();
  if (broken_) return;
  save_aside(state);
  if (every_seconds_ == 0) settle();  // a state that has been reported is on the disk then
}

// A copy of a step takes milliseconds, and writing it may take seconds. So each step that is not written is copied, for
// the case that the run is stopped before another one is written. Without memory for that, it is not.
void StateFile::remember(const RunStateView& state) {
  unsaved_ = false;
  try {
    keep(state, last_step_);
  } catch (const std::bad_alloc&) {
    last_step_ = {};
    return;
  }
  steps_ = state.steps;
  unsaved_ = true;
}

void StateFile::interrupted() {
  settle();
  if (broken_ || !unsaved_) return;
  unsaved_ = false;
  try {
    save(view_of(last_step_, steps_));
    saved_ = {last_step_.step, last_step_.window, last_step_.windows};
  } catch (const Error& e) {
    if (e.code() != ErrorCode::io) throw;
    warn("the last step cannot be saved: {}", e.message());
  }
}

// The last window need not be kept: nothing comes after it.
void StateFile::frame(RgbView frame) {
  if (broken_ || window_ + 1 >= count_) return;
  settle();
  if (broken_) return;
  try {
    windows_.frame(frame);
  } catch (const Error& e) {
    give_up(e);
  }
}

}  // namespace tachy::jobs
