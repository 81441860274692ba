#include "workers/waiting_list.h"

#include <algorithm>
#include <tuple>

namespace tachy::workers {
namespace {

constexpr int64_t kFirst = 10;  // from here on each step forward is told

bool before(const queue::WaitingJob& a, const queue::WaitingJob& b) {
  return std::tuple(-a.priority, a.place, a.created_ms, std::string_view(a.id)) <
         std::tuple(-b.priority, b.place, b.created_ms, std::string_view(b.id));
}

bool worth_telling(int64_t told, int64_t now) {
  return now != told && (now < kFirst || now <= told / 2 || now >= told * 2);
}

}  // namespace

std::vector<WaitingList::Told> WaitingList::update(std::vector<queue::WaitingJob> waiting,
                                                   double busy_seconds, int at_once) {
  std::erase_if(waiting, [](const queue::WaitingJob& job) { return job.paused; });
  std::ranges::sort(waiting, before);
  const std::lock_guard lock(mutex_);
  order_ = std::move(waiting), busy_ = busy_seconds, at_once_ = at_once;
  places_.clear();
  std::vector<Told> out;
  std::map<std::string, int64_t, std::less<>> told;
  double start = busy_ / at_once_;
  for (size_t i = 0; i < order_.size(); ++i) {
    const queue::WaitingJob& job = order_[i];
    const Place place{static_cast<int64_t>(i), start, job.planned_seconds, job.priority};
    places_.emplace(job.id, place);
    start += job.planned_seconds / at_once_;
    const auto earlier = told_.find(job.id);
    const bool tell = earlier == told_.end() || worth_telling(earlier->second, place.position);
    if (tell) out.push_back({job.id, place});
    told.emplace(job.id, tell ? place.position : earlier->second);
  }
  told_ = std::move(told);
  return out;
}

std::optional<WaitingList::Place> WaitingList::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

WaitingList::Place WaitingList::next_of(int priority) const {
  const std::lock_guard lock(mutex_);
  Place out{.start_seconds = busy_ / at_once_, .priority = priority};
  for (const queue::WaitingJob& job : order_) {
    if (job.priority < priority) break;
    ++out.position, out.start_seconds += job.planned_seconds / at_once_;
  }
  return out;
}

std::vector<queue::WaitingJob> WaitingList::in_order() const {
  const std::lock_guard lock(mutex_);
  return order_;
}

}  // namespace tachy::workers
