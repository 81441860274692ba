#include "queue/policy.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>

#include "queue/forecast.h"
#include "queue/slack_tree.h"

namespace tachy::queue {
namespace {

// A row of jobs, as indices among those that were given.
using Row = std::vector<size_t>;

// Returns whether a job comes before another of its priority and owner.
bool earlier(const WaitingJob& a, const WaitingJob& b) {
  if (a.place != b.place) return a.place < b.place;
  if (a.created_ms != b.created_ms) return a.created_ms < b.created_ms;
  return a.id < b.id;
}

// Puts the jobs of one priority into the order of their turns, and adds what they will use to `used`.
Row fair_order(std::span<const WaitingJob> waiting, Row level, std::map<std::string, double>& used) {
  std::sort(level.begin(), level.end(), [&](size_t a, size_t b) {
    const bool begun_a = waiting[a].attempts > 0, begun_b = waiting[b].attempts > 0;
    return begun_a != begun_b ? begun_a : earlier(waiting[a], waiting[b]);
  });
  Row order;
  std::map<std::string, Row> rows;  // of each owner, the last one first
  for (const size_t job : level) {
    if (waiting[job].attempts > 0)
      order.push_back(job);
    else
      rows[waiting[job].owner].push_back(job);
  }
  // The owner with the fewest seconds; among equal ones, the one whose job is earlier.
  struct Next {
    double used;
    const WaitingJob* job;
    Row* row;
  };
  const auto later = [](const Next& a, const Next& b) {
    return a.used != b.used ? a.used > b.used : earlier(*b.job, *a.job);
  };
  std::priority_queue<Next, std::vector<Next>, decltype(later)> heap(later);
  for (auto& [owner, row] : rows) {
    std::reverse(row.begin(), row.end());
    heap.push({used[owner], &waiting[row.back()], &row});
  }
  while (!heap.empty()) {
    Next next = heap.top();
    heap.pop();
    order.push_back(next.row->back());
    next.row->pop_back();
    double& sum = used[next.job->owner];
    sum += planned_seconds(*next.job);
    if (!next.row->empty()) heap.push({sum, &waiting[next.row->back()], next.row});
  }
  return order;
}

// Returns how far each job of a row may still be passed over. A job that was begun goes on at its turn.
std::vector<double> slack_of(std::span<const WaitingJob> waiting, const Situation& now, const Row& order) {
  std::vector<double> slack;
  for (const size_t job : order) {
    const auto passed = now.passed_over.find(waiting[job].id);
    slack.push_back(waiting[job].attempts > 0 ? 0
                                              : kPatienceSeconds + planned_seconds(waiting[job]) -
                                                    (passed == now.passed_over.end() ? 0 : passed->second));
  }
  return slack;
}

// The needs in memory, the latest first.
class Memory {
 public:
  explicit Memory(std::vector<std::string> loaded)
      : loaded_(std::move(loaded)), room_(std::max<size_t>(1, loaded_.size())) {}
  const std::vector<std::string>& loaded() const { return loaded_; }
  void use(const std::string& needs) {
    std::erase(loaded_, needs);
    loaded_.insert(loaded_.begin(), needs);
    if (loaded_.size() > room_) loaded_.pop_back();
  }

 private:
  std::vector<std::string> loaded_;
  size_t room_;
};

// Appends the jobs of one priority to `out`, in the order in which they begin.
void group(std::span<const WaitingJob> waiting, const Situation& now, const Row& order, Memory& memory,
           std::vector<Turn>& out) {
  SlackTree slack(slack_of(waiting, now, order));
  std::set<size_t> left;  // places in `order`
  std::unordered_map<std::string, std::set<size_t>> by_needs;
  std::vector<char> may_begin(order.size());
  for (size_t at = 0; at < order.size(); ++at) {
    left.insert(left.end(), at);
    by_needs[waiting[order[at]].needs].insert(at);
    may_begin[at] = planned_seconds(waiting[order[at]]) <= slack.least_before(at);
  }
  while (!left.empty()) {
    size_t next = *left.begin(), loaded = order.size();
    for (const std::string& needs : memory.loaded())
      if (const auto it = by_needs.find(needs); it != by_needs.end() && !it->second.empty())
        loaded = std::min(loaded, *it->second.begin());
    if (loaded < order.size() && loaded != next) {
      const double seconds = planned_seconds(waiting[order[loaded]]);
      if (seconds <= slack.least_before(loaded)) {
        slack.lower_before(loaded, seconds);
        next = loaded;
      }
    }
    const WaitingJob& job = waiting[order[next]];
    left.erase(next), by_needs[job.needs].erase(next), slack.remove(next);
    memory.use(job.needs);
    out.push_back({.job = order[next], .may_begin = may_begin[next] != 0});
  }
}

// Returns the ids of jobs that are paused, and of those that wait for one of them.
std::set<std::string> held_up(std::span<const WaitingJob> waiting) {
  std::set<std::string> held;
  for (const WaitingJob& job : waiting)
    if (job.paused) held.insert(job.id);
  const auto joins = [&](const WaitingJob& job) {
    return !job.awaits.empty() && !held.contains(job.id) &&
           std::ranges::any_of(awaited_ids(job.awaits),
                               [&](const std::string& id) { return held.contains(id); });
  };
  for (bool more = !held.empty(); more;) {
    more = false;
    for (const WaitingJob& job : waiting)
      if (joins(job)) more = held.insert(job.id).second;
  }
  return held;
}

// Returns the jobs that are not held up, by priority, the highest first.
std::map<int, Row, std::greater<>> levels(std::span<const WaitingJob> waiting) {
  const std::set<std::string> held = held_up(waiting);
  std::map<int, Row, std::greater<>> levels;
  for (size_t i = 0; i < waiting.size(); ++i)
    if (!held.contains(waiting[i].id)) levels[waiting[i].priority].push_back(i);
  return levels;
}

}  // namespace

double still_counted(double seconds, int64_t then_ms, int64_t now_ms) {
  const double age = std::max<double>(0, static_cast<double>(now_ms - then_ms) / 1000);
  return seconds * std::exp2(-age / kHalfLifeSeconds);
}

double planned_seconds(const WaitingJob& job) { return job.planned_seconds > 1 ? job.planned_seconds : 1; }

std::vector<Turn> turns(std::span<const WaitingJob> waiting, const Situation& situation) {
  std::vector<Turn> out;
  std::map<std::string, double> used = situation.used;
  Memory memory(situation.loaded);
  for (auto& [priority, level] : levels(waiting))
    group(waiting, situation, fair_order(waiting, std::move(level), used), memory, out);
  forecast(waiting, situation, out);
  return out;
}

std::vector<size_t> passed_by(std::span<const WaitingJob> waiting, const Situation& situation, size_t job) {
  std::map<std::string, double> used = situation.used;
  for (auto& [priority, level] : levels(waiting)) {
    Row order = fair_order(waiting, std::move(level), used);
    if (priority != waiting[job].priority) continue;
    const auto at = std::find(order.begin(), order.end(), job);
    if (at == order.end()) return {};
    order.erase(at, order.end());
    return order;
  }
  return {};
}

}  // namespace tachy::queue
