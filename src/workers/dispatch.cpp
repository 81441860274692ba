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
// A GPU that has failed may fail in every job of this process: the others are then better off waiting.
constexpr int kMostDeviceFailures = 2;

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
  lost.clear();
  mark->touch();
  if (reap()) too_large.clear();
  const Jobs jobs = jobs_now();
  if (!keeps_lease(jobs)) return;
  obey(jobs);
  recover_lost();
  release();
  tell_places();
  const bool room_for_files = room_on_disk();
  std::unique_lock lock(bell->mutex);
  const bool room = bell->rooms > 0;
  lock.unlock();
  if (room)
    for (const auto& [id, job] : jobs) job->stop(Stop::world);
  else if (device_failures < kMostDeviceFailures)
    fill(room_for_files);
  sweep();
  drop_previews();
}

Foreman::State::Jobs Foreman::State::jobs_now() const {
  const std::lock_guard lock(bell->mutex);
  return running;
}

bool Foreman::State::reap() {
  std::vector<std::shared_ptr<RunningJob>> ended;  // their threads are waited for without the lock
  {
    const std::lock_guard lock(bell->mutex);
    std::erase_if(running, [&](const auto& job) {
      if (!job.second->ended()) return false;
      ended.push_back(job.second);
      return true;
    });
  }
  for (const auto& job : ended) previewed.emplace_back(wall_clock_ms(), job->row().id);
  for (const auto& job : ended)
    if (job->too_large_here()) refused.insert(job->row().id);
  if (options.presence && !ended.empty()) options.presence->announce_now();
  for (const auto& job : ended) device_failures = job->device_failed() ? device_failures + 1 : 0;
  if (device_failures >= kMostDeviceFailures) {
    const std::lock_guard lock(bell->mutex);
    not_ready = "the device has failed in several jobs in a row; look at it, and start the server again";
  }
  return !ended.empty();
}

void Foreman::State::obey(const Jobs& jobs) {
  const std::optional<Lease::Held> held = lease.beat();
  if (!held) return;  // the next look finds the lease lost
  for (const queue::HeldJob& one : *held) {
    const auto found = jobs.find(one.id);
    if (found == jobs.end())
      put_back(one);
    else if (one.wish == queue::Wish::cancel)
      found->second->stop(Stop::cancel);
    else if (one.wish == queue::Wish::cancel_keeping_frames)
      found->second->stop(Stop::keep);
    else if (one.wish == queue::Wish::pause)
      found->second->stop(Stop::pause);
  }
  for (const auto& [id, job] : jobs)
    if (std::ranges::find(*held, id, &queue::HeldJob::id) == held->end() && !table.find(id))
      job->stop(Stop::removed);  // one that is in the table ends just now
}

void Foreman::State::fill(bool may_begin) {
  while (true) {
    const Jobs jobs = jobs_now();
    const std::vector<queue::TurnQueue::Next> order = turns.order();
    const Choice next = choose(order);
    if (go_on(jobs, may_begin ? next.job : nullptr)) continue;
    if (!next.job || !may_begin || !place_for(*next.job, jobs)) return;
    const Begun begun = begin(*next.job, next.why);
    if (begun == Begun::not_now || (begun == Begun::taken_elsewhere && !options.presence)) return;
    if (begun == Begun::taken_elsewhere) lost.insert(next.job->id);
  }
}

// A held job goes on before anything begins that is not more urgent than it.
bool Foreman::State::go_on(const Jobs& jobs, const queue::WaitingJob* next) {
  RunningJob* held = nullptr;
  int computing = 0;
  for (const auto& [id, job] : jobs) {
    if (job->left()) continue;
    if (!job->held())
      ++computing;
    else if (!held || job->row().priority > held->row().priority)
      held = job.get();
  }
  if (!held || computing >= at_once() || (next && next->priority > held->row().priority)) return false;
  held->hold(false);
  return true;
}

// Says whether the job may begin now. If not, the running job of the least priority makes way for it,
// provided that it is less urgent: it is held where both fit into memory, so that it loses nothing, and
// stopped otherwise.
bool Foreman::State::place_for(const queue::WaitingJob& job, const Jobs& jobs) {
  RunningJob* least = nullptr;
  int computing = 0;
  bool alone = true;
  for (const auto& [id, one] : jobs) {
    if (one->left()) continue;
    alone = false;
    if (one->stopped() != Stop::none) return false;  // its memory and its place are about to be free
    if (one->held()) continue;
    ++computing;
    if (!least || one->row().priority < least->row().priority) least = one.get();
  }
  if (alone) return true;
  const bool free = computing < at_once(), urgent = !least || least->row().priority < job.priority;
  if (!free && !urgent) return false;
  const std::optional<bool> known = job.id == too_large ? false : fits_beside(job.id);
  if (!known) return false;  // the bell rings when it is planned
  const bool fits = *known;
  if (!fits) too_large = job.id;
  if (free && fits) return true;
  if (!urgent) return false;
  if (!least) {  // only held jobs are in the way, and they would be for ever
    std::ranges::find_if(jobs, [](const auto& job) {
      return !job.second->left();
    })->second->stop(Stop::priority);
    return false;
  }
  if (fits && least->hold(true)) return true;
  least->stop(Stop::priority);
  return false;
}

// The engine would let a job wait that does not fit, but then it would keep a place that nobody else could
// use.
std::optional<bool> Foreman::State::fits_beside(const std::string& id) {
  std::optional<queue::JobRow> row = table.find(id);
  if (!row || row->kind != "video" || !models.find(row->model)) return true;
  const std::shared_ptr<Engine> engine = models.opened(row->model);
  const std::shared_ptr<const PreparedRequest> plan = plans.get(id, row->settings);
  if (engine && plan) return engine->fits_beside(*plan);
  if (ahead->failed(*row)) return true;  // it will fail, and say why
  ahead->want(std::move(*row));
  return std::nullopt;
}

void Foreman::State::plan_ahead(const queue::JobRow& row, const std::atomic<bool>& cancel) {
  const std::shared_ptr<Engine> engine = models.open(row.model);
  if (plans.get(row.id, row.settings)) return;
  const jobs::JobSpec job = job_of_row(row, {options.files, row.id}, *models.find(row.model), options.loras);
  plans.put(row.id, row.settings,
            std::make_shared<const PreparedRequest>(engine->prepare(job.settings.request, &cancel)));
}

Foreman::State::Begun Foreman::State::begin(const queue::WaitingJob& next, const std::string& why) {
  const std::string& id = next.id;
  {
    const std::lock_guard lock(bell->mutex);
    if (bell->stopping || bell->rooms > 0) return Begun::not_now;
    beginning.insert(id);
  }
  std::shared_ptr<RunningJob> job;
  try {
    if (std::optional<queue::JobRow> row = turns.claim(id, options.worker)) {
      if (options.presence) table.placed(id, options.worker, options.files_id, why);
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
  if (job) note_loaded(next.needs);
  {
    const std::lock_guard lock(bell->mutex);
    beginning.erase(id);
    if (job) {
      for (const auto& [other_id, other] : running) {
        if (other->left()) continue;
        job->not_alone();
        other->not_alone();
      }
      running[id] = job;
    }
  }
  bell->rung.notify_all();
  if (job) job->start();
  return job ? Begun::yes : Begun::taken_elsewhere;
}

// Nobody knows what stays in memory beside the last one: on a GPU most likely nothing.
void Foreman::State::note_loaded(const std::string& needs) {
  std::erase(loaded, needs);
  loaded.insert(loaded.begin(), needs);
  loaded.resize(std::min(loaded.size(), size_t{models.on_gpu() ? 1u : 4u}));
  {
    const std::lock_guard lock(bell->mutex);
    holds = loaded;
  }
  if (options.presence) options.presence->announce_now();
}

}  // namespace tachy::workers
