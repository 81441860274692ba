#include "queue/turn_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tachy::queue {
namespace {

constexpr double kMovedSeconds = 1;  // an end that moves by less changes no forecast
constexpr double kOldSeconds =
    5;  // after which the order is computed anew: what owners have used counts less

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void TurnQueue::set(std::vector<std::string> loaded, std::vector<double> busy, double pace, Ends ends) {
  const auto now = Clock::now();
  if (busy.empty()) busy = {0};
  std::sort(busy.begin(), busy.end());
  std::vector<Clock::time_point> until;
  const auto after = [&](double seconds) {
    return now + std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)));
  };
  for (const double seconds : busy) until.push_back(after(std::isfinite(seconds) ? seconds : 0));
  std::unordered_map<std::string, Clock::time_point> ends_at;
  for (const auto& [id, seconds] : ends)
    ends_at[id] = std::isfinite(seconds) ? after(seconds) : Clock::time_point::max();
  const std::lock_guard lock(mutex_);
  const auto differ = [&](Clock::time_point a, Clock::time_point b) {
    return std::abs(std::max(0.0, seconds_between(now, a)) - std::max(0.0, seconds_between(now, b))) >
           kMovedSeconds;
  };
  bool moved = until.size() != busy_until_.size() || ends_at.size() != ends_.size();
  for (size_t i = 0; !moved && i < until.size(); ++i) moved = differ(until[i], busy_until_[i]);
  for (const auto& [id, end] : ends_at) {
    const auto before = ends_.find(id);
    moved = moved || before == ends_.end() || differ(end, before->second);
  }
  if (!moved && loaded == loaded_ && pace == pace_) return;
  loaded_ = std::move(loaded), busy_until_ = std::move(until), pace_ = pace, ends_ = std::move(ends_at);
  changed_ = true;
}

Situation TurnQueue::situation_at(Clock::time_point now) const {
  Situation situation{.loaded = loaded_, .passed_over = passed_over_, .busy = {}, .ends = {}, .pace = pace_};
  for (const auto until : busy_until_) situation.busy.push_back(std::max(0.0, seconds_between(now, until)));
  for (const auto& [id, end] : ends_)
    situation.ends[id] = end == Clock::time_point::max() ? std::numeric_limits<double>::infinity()
                                                         : std::max(0.0, seconds_between(now, end));
  return situation;
}

bool TurnQueue::is_fresh(Clock::time_point now) const {
  return snapshot_ && !changed_ && snapshot_->version == table_.version() &&
         seconds_between(snapshot_->made, now) < kOldSeconds;
}

std::shared_ptr<const TurnQueue::Snapshot> TurnQueue::fresh() {
  std::unique_lock lock(mutex_);
  const auto asked = Clock::now();
  while (!is_fresh(Clock::now())) {
    if (!computing_) return computed(lock);
    computed_.wait(lock, [&] { return !computing_; });
    if (snapshot_ && snapshot_->made >= asked) break;  // what has changed since was not there to be asked for
  }
  return snapshot_;
}

// Computes the order without the lock, since it takes a while where many jobs wait.
std::shared_ptr<const TurnQueue::Snapshot> TurnQueue::computed(std::unique_lock<std::mutex>& lock) {
  auto next = std::make_shared<Snapshot>();
  // A change that comes meanwhile makes this one outdated.
  next->version = table_.version(), next->made = Clock::now();
  next->situation = situation_at(next->made);
  const std::shared_ptr<const Snapshot> before = snapshot_;
  computing_ = true, changed_ = false;
  lock.unlock();
  try {
    next->waiting = before && before->version == next->version ? before->waiting : table_.waiting();
    next->situation.used = table_.used_seconds();
    next->turns = turns(next->waiting, next->situation);
    for (size_t i = 0; i < next->turns.size(); ++i) next->at[next->waiting[next->turns[i].job].id] = i;
  } catch (...) {
    lock.lock();
    computing_ = false, changed_ = true;
    computed_.notify_all();
    throw;
  }
  lock.lock();
  std::unordered_map<std::string, double> passed_over;
  for (const WaitingJob& job : next->waiting)
    if (const auto it = passed_over_.find(job.id); it != passed_over_.end()) passed_over.insert(*it);
  passed_over_ = std::move(passed_over);
  computing_ = false, snapshot_ = std::move(next);
  computed_.notify_all();
  return snapshot_;
}

std::vector<TurnQueue::Next> TurnQueue::order() {
  const auto now = fresh();
  std::vector<Next> order;
  for (const Turn& turn : now->turns)
    order.push_back({now->waiting[turn.job], turn.start_seconds, turn.may_begin});
  return order;
}

std::vector<WaitingJob> TurnQueue::awaiting() {
  std::vector<WaitingJob> jobs;
  for (const auto now = fresh(); const WaitingJob& job : now->waiting)
    if (!job.awaits.empty()) jobs.push_back(job);
  return jobs;
}

std::optional<TurnQueue::Place> TurnQueue::find(const std::string& id) { return place_in(*fresh(), id); }

bool TurnQueue::find_now(const std::string& id, std::optional<Place>& place) {
  std::shared_ptr<const Snapshot> now;
  {
    const std::lock_guard lock(mutex_);
    if (!is_fresh(Clock::now()) && !(computing_ && snapshot_ && snapshot_->at.contains(id))) return false;
    now = snapshot_;
  }
  place = place_in(*now, id);
  return true;
}

std::optional<TurnQueue::Place> TurnQueue::place_in(const Snapshot& snapshot, const std::string& id) {
  const auto it = snapshot.at.find(id);
  if (it == snapshot.at.end()) return std::nullopt;
  const double age = seconds_between(snapshot.made, Clock::now());
  return Place{static_cast<int64_t>(it->second),
               std::max(0.0, snapshot.turns[it->second].start_seconds - age)};
}

TurnQueue::Place TurnQueue::would_get(WaitingJob job) {
  const auto now = fresh();
  std::vector<WaitingJob> waiting = now->waiting;
  job.place = 1;
  for (const WaitingJob& other : waiting) job.place = std::max(job.place, other.place + 1);
  job.paused = false;
  waiting.push_back(std::move(job));
  const std::vector<Turn> all = turns(waiting, now->situation);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].job + 1 == waiting.size()) return {static_cast<int64_t>(i), all[i].start_seconds};
  return {};
}

std::optional<JobRow> TurnQueue::claim(const std::string& id, const std::string& worker) {
  const auto before = fresh();
  std::optional<JobRow> row = table_.claim(id, worker);  // waits for the disk, without the lock
  const auto it = before->at.find(id);
  if (!row || it == before->at.end()) return row;
  const size_t job = before->turns[it->second].job;
  const std::lock_guard lock(mutex_);
  for (const size_t other : passed_by(before->waiting, before->situation, job))
    passed_over_[before->waiting[other].id] += planned_seconds(before->waiting[job]);
  changed_ = true;
  return row;
}

}  // namespace tachy::queue
