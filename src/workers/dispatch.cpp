// The dispatcher of a Foreman: which job begins, which one makes way for it, and what becomes of old ones.
#include <algorithm>

#include "base/log.h"
#include "workers/foreman_state.h"
#include "workers/job_of_row.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

// Nobody need wait for these: whatever changes rings the bell.
constexpr std::chrono::seconds kBetweenLooks{2};
constexpr int64_t kBetweenSweepsMs = 60'000;

}  // namespace

void Foreman::State::dispatch() {
  std::unique_lock lock(bell->mutex);
  while (!bell->stopping) {
    bell->woken = false;
    lock.unlock();
    try {
      look();
    } catch (const std::exception& e) {  // a disk that is full for a while does not end the server
      warn("the table of jobs cannot be used, which is tried again: {}", e.what());
    }
    lock.lock();
    bell->rung.wait_for(lock, kBetweenLooks, [&] { return bell->woken || bell->stopping; });
  }
}

void Foreman::State::look() {
  if (reap()) passed_over.clear();
  const Jobs jobs = jobs_now();
  obey(jobs);
  update_waiting();
  bool room = false;
  {
    const std::lock_guard lock(bell->mutex);
    room = bell->rooms > 0;
  }
  if (room)
    for (const auto& [id, job] : jobs) job->stop(Stop::world);
  else
    fill();
  if (wall_clock_ms() - swept_ms >= kBetweenSweepsMs) sweep();
}

Foreman::State::Jobs Foreman::State::jobs_now() const {
  const std::lock_guard lock(bell->mutex);
  return running;
}

// On a CPU two runs would share its threads, and neither would be done sooner.
int Foreman::State::at_once() const {
  if (options.at_once > 0) return options.at_once;
  return models.on_gpu() ? 2 : 1;
}

bool Foreman::State::reap() {
  std::vector<std::shared_ptr<RunningJob>> ended;  // their threads are waited for without the lock
  const std::lock_guard lock(bell->mutex);
  std::erase_if(running, [&](const auto& job) {
    if (!job.second->ended()) return false;
    ended.push_back(job.second);
    return true;
  });
  return !ended.empty();
}

void Foreman::State::obey(const Jobs& jobs) const {
  for (const auto& [id, job] : jobs) {
    const std::optional<queue::JobRow> row = table.find(id);
    if (!row)
      job->stop(Stop::removed);
    else if (row->status != queue::Status::in_progress)
      continue;  // it ends just now
    else if (row->wish == queue::Wish::cancel)
      job->stop(Stop::cancel);
    else if (row->wish == queue::Wish::cancel_keeping_frames)
      job->stop(Stop::keep);
    else if (row->wish == queue::Wish::pause)
      job->stop(Stop::pause);
  }
}

void Foreman::State::update_waiting() {
  double busy = 0;
  for (const auto& [id, job] : jobs_now()) busy += std::max(job->live().eta_seconds, 0.0);
  for (const auto& [id, place] : waiting.update(table.waiting(), busy, at_once()))
    book.add(
        id, "queued",
        {{"position", place.position}, {"eta_seconds", std::round(place.start_seconds + place.seconds)}});
}

void Foreman::State::fill() {
  for (const queue::WaitingJob& next : waiting.in_order()) {
    const Jobs jobs = jobs_now();
    if (!may_begin(next, jobs)) return make_way(next, jobs);
    begin(next.id);
  }
}

bool Foreman::State::may_begin(const queue::WaitingJob& job, const Jobs& beside) {
  if (beside.empty()) return true;
  // One that is being stopped is waited for: its memory is about to be free.
  const auto stops = [](const auto& one) { return one.second->stopped() != Stop::none; };
  if (static_cast<int>(beside.size()) >= at_once() || std::ranges::any_of(beside, stops)) return false;
  if (job.id == passed_over) return false;
  if (fits_beside(job.id)) return true;
  passed_over = job.id;
  return false;
}

// The engine would let a job wait that does not fit, but then it would keep a place that nobody else could
// use.
bool Foreman::State::fits_beside(const std::string& id) {
  const std::optional<queue::JobRow> row = table.find(id);
  if (!row || row->kind != "video") return true;
  try {
    const ServedModel* const model = models.find(row->model);
    if (!model) return true;
    const std::shared_ptr<Engine> engine = models.open(row->model);
    std::shared_ptr<const PreparedRequest> plan = plans.get(id, row->settings);
    if (!plan) {
      const jobs::JobSpec job = job_of_row(*row, {options.files, id}, *model, options.loras);
      plan = std::make_shared<const PreparedRequest>(engine->prepare(job.settings.request));
      plans.put(id, row->settings, plan);
    }
    return engine->fits_beside(*plan);
  } catch (const Error&) {
    return true;  // it will fail, and say why
  }
}

// Stops the running job of the least priority, if that is lower than the waiting one's.
void Foreman::State::make_way(const queue::WaitingJob& waiting_job, const Jobs& jobs) const {
  RunningJob* least = nullptr;
  for (const auto& [id, job] : jobs) {
    if (job->stopped() != Stop::none) return;  // somebody makes way already
    if (!least || job->row().priority < least->row().priority) least = job.get();
  }
  if (least && least->row().priority < waiting_job.priority) least->stop(Stop::priority);
}

void Foreman::State::begin(const std::string& id) {
  {
    const std::lock_guard lock(bell->mutex);
    if (bell->stopping || bell->rooms > 0) return;
    beginning.insert(id);
  }
  std::shared_ptr<RunningJob> job;
  try {
    if (std::optional<queue::JobRow> row = table.claim(id, options.worker)) {
      auto plan = plans.get(id, row->settings);
      job = std::make_shared<RunningJob>(shop, std::move(*row), std::move(plan),
                                         [ring = bell] { ring->ring(); });
    }
  } catch (...) {
    const std::lock_guard lock(bell->mutex);
    beginning.erase(id);
    throw;
  }
  plans.drop(id);
  {
    const std::lock_guard lock(bell->mutex);
    beginning.erase(id);
    if (job) {
      if (!running.empty()) job->not_alone();
      for (const auto& other : running) other.second->not_alone();
      running[id] = job;
    }
  }
  bell->rung.notify_all();
  if (job) job->start();
}

// Removes ended jobs that are too old, or too many. The folder goes first: a row without one is found again.
void Foreman::State::sweep() {
  swept_ms = wall_clock_ms();
  for (const std::string& id : table.outdated(swept_ms, options.keep_bytes)) {
    std::error_code ec;
    std::filesystem::remove_all(queue::JobFolder(options.files, id).path, ec);
    if (ec) {
      warn("{}: the job is outdated, but its folder cannot be removed: {}", id, ec.message());
      continue;
    }
    table.remove(id);
    book.forget(id);
  }
}

}  // namespace tachy::workers
