// The place of each job in the queue and the seconds until its end, for those who ask and for those who listen.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "workers/foreman_state.h"

namespace tachy::workers {
namespace {

Live live_waiting(const queue::JobRow& row, const std::optional<queue::TurnQueue::Place>& place) {
  if (!place) return {};  // somebody has just taken it
  const double left = place->start_seconds + row.planned_seconds;
  return {.eta_seconds = std::isfinite(left) ? left : -1, .position = place->position};
}

bool waits(const queue::JobRow& row) { return row.status == queue::Status::queued && !row.paused; }

}  // namespace

// The pace is 1, since planned_seconds of a row are already what this server has seen runs to take.
void Foreman::State::tell_places() {
  std::vector<double> busy;
  queue::TurnQueue::Ends ends;
  for (const auto& [id, job] : jobs_now()) {
    const double left = job->held() ? -1 : job->live().eta_seconds;
    if (!job->ended()) ends[id] = left < 0 ? std::numeric_limits<double>::infinity() : left;
    if (!job->held()) busy.push_back(std::max(left, 0.0));
  }
  busy.resize(std::max(busy.size(), static_cast<size_t>(places())));
  add_other_places(busy);
  add_other_ends(ends);
  turns.set(loaded, busy, 1, std::move(ends));
  if (!is_teller()) return;
  const std::vector<queue::TurnQueue::Next> order = turns.order();
  for (const size_t i : told.to_tell(order)) tell_place(order[i].job, i, order[i].start_seconds);
}

void Foreman::State::tell_place(const queue::WaitingJob& job, size_t position, double start_seconds) {
  const double left = std::round(start_seconds + job.planned_seconds);
  book.add(job.id, "queued",
           {{"position", position},
            {"eta_seconds", std::isfinite(left) ? nlohmann::json(left) : nlohmann::json()}});
}

// Others say how many jobs they run, and not for how long: a place that is taken counts as a short job.
void Foreman::State::add_other_places(std::vector<double>& busy) const {
  constexpr double kTakenSeconds = 10;
  if (!options.presence) return;
  for (const Host& host : options.presence->hosts()) {
    if (host.row.name == options.worker || !host.about.takes_jobs()) continue;
    for (int i = 0; i < host.about.at_once; ++i) busy.push_back(i < host.about.running ? kTakenSeconds : 0);
  }
}

void Foreman::State::add_other_ends(queue::TurnQueue::Ends& ends) {
  if (!options.presence) return;
  for (const queue::WaitingJob& job : turns.awaiting())
    for (const std::string& id : queue::awaited_ids(job.awaits)) {
      if (ends.contains(id)) continue;
      const std::optional<queue::JobRow> row = table.find(id);
      if (!row || row->status != queue::Status::in_progress) continue;
      const double left = live_elsewhere(*row).eta_seconds;
      ends[id] = left < 0 ? std::numeric_limits<double>::infinity() : left;
    }
}

std::optional<Live> Foreman::State::live_running(const queue::JobRow& row) const {
  if (row.status != queue::Status::in_progress) return std::nullopt;
  std::shared_ptr<RunningJob> job;
  {
    const std::lock_guard lock(bell->mutex);
    if (const auto found = running.find(row.id); found != running.end()) job = found->second;
  }
  if (!job || job->ended()) return std::nullopt;
  return job->live();
}

Live Foreman::live(const queue::JobRow& row) const {
  if (const auto running = state_->live_running(row)) return *running;
  if (!waits(row)) return state_->live_elsewhere(row);
  if (!state_->options.runs) {  // nobody else tells the forecast who computes
    std::vector<double> busy;
    state_->add_other_places(busy);
    queue::TurnQueue::Ends ends;
    state_->add_other_ends(ends);
    state_->turns.set({}, busy, 1, std::move(ends));
  }
  return state_->explained(row, live_waiting(row, state_->turns.find(row.id)));
}

std::optional<Live> Foreman::live_now(const queue::JobRow& row) const {
  if (const auto running = state_->live_running(row)) return running;
  if (!waits(row)) {
    if (state_->runs_elsewhere(row)) return std::nullopt;  // its events are read
    return state_->live_elsewhere(row);
  }
  std::optional<queue::TurnQueue::Place> place;
  if (!state_->turns.find_now(row.id, place)) return std::nullopt;
  return state_->explained(row, live_waiting(row, place));
}

}  // namespace tachy::workers
