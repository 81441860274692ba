// The dispatcher of a Foreman: what it does at each look at the table, and how a job begins. Its place is found in
// places.cpp.
#include <algorithm>

#include "base/log.h"
#include "queue/job_folder.h"
#include "workers/foreman_state.h"
#include "workers/job_of_row.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

// Nobody need wait for these: whatever changes rings the bell.
constexpr std::chrono::seconds kBetweenLooks{2};

// A job's events end where its folder is not, so whoever reads in the table that this host has the files must find it.
// If the folder cannot be made here, it cannot be when the job begins either, and the job then fails with the reason.
void make_folder(const std::filesystem::path& files, const std::string& id) {
  std::error_code ignored;
  std::filesystem::create_directories(queue::JobFolder(files, id).inputs(), ignored);
}

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
  if (reap())
    for (Card& card : cards) card.too_large.clear();
  const Jobs jobs = jobs_now();
  if (!keeps_lease(jobs)) return;
  obey(jobs);
  recover_lost();
  release();
  tell_places();
  const bool room_for_files = room_on_disk();
  if (world_wants_room())
    for (const auto& [id, job] : jobs)
      if (job->card() == 0) job->stop(Stop::world);
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
  for (const auto& job : ended) count_failure(job->card(), job->device_failed());
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
    if (!next.job || !may_begin) return;
    const std::optional<int> card = place_for(*next.job, jobs);
    if (!card) return;
    const Begun begun = begin(*next.job, next.why, *card);
    if (begun == Begun::not_now || (begun == Begun::taken_elsewhere && !options.presence)) return;
    if (begun == Begun::taken_elsewhere) lost.insert(next.job->id);
  }
}

Foreman::State::Begun Foreman::State::begin(const queue::WaitingJob& next, const std::string& why, int card) {
  const std::string& id = next.id;
  {
    const std::lock_guard lock(bell->mutex);
    if (bell->stopping || (bell->rooms > 0 && card == 0)) return Begun::not_now;
    beginning[id] = card;
  }
  std::shared_ptr<RunningJob> job;
  try {
    if (std::optional<queue::JobRow> row = turns.claim(id, options.worker)) {
      if (options.presence) {
        make_folder(options.files, id);
        table.placed(id, options.worker, options.files_id, why);
      }
      // It has come since the places were told, or another host was to tell its place.
      if (book.last(id) == 0) tell_place(next, 0, 0);
      auto plan = card == 0 ? plans.get(id, row->settings) : nullptr;  // they are the first card's
      job = std::make_shared<RunningJob>(shop, std::move(*row), card, std::move(plan),
                                         [ring = bell] { ring->ring(); });
    }
  } catch (...) {
    const std::lock_guard lock(bell->mutex);
    beginning.erase(id);
    throw;
  }
  plans.drop(id);
  if (job) note_loaded(next.needs, card);
  {
    const std::lock_guard lock(bell->mutex);
    beginning.erase(id);
    if (job) {
      for (const auto& [other_id, other] : running) {
        if (other->left() || other->card() != card) continue;
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
void Foreman::State::note_loaded(const std::string& needs, int card) {
  cards[static_cast<size_t>(card)].holds = needs;
  std::erase(loaded, needs);
  loaded.insert(loaded.begin(), needs);
  loaded.resize(std::min(loaded.size(), models.on_gpu() ? cards.size() : size_t{4}));
  {
    const std::lock_guard lock(bell->mutex);
    holds = loaded;
  }
  if (options.presence) options.presence->announce_now();
}

}  // namespace tachy::workers
