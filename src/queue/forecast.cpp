#include "queue/forecast.h"

#include <algorithm>
#include <queue>
#include <set>

namespace tachy::queue {
namespace {

template <class T>
using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

// The turns of a queue in which some jobs wait for others.
class RunDown {
 public:
  RunDown(std::span<const WaitingJob> waiting, const Situation& situation, std::vector<Turn>& turns)
      : waiting_(waiting), turns_(turns), missing_(turns.size()), earliest_(turns.size()) {
    std::set<std::string> to_come;
    for (const Turn& turn : turns) to_come.insert(waiting[turn.job].id);
    for (size_t at = 0; at < turns.size(); ++at) {
      for (const std::string& source : awaited_ids(job(at).awaits))
        if (to_come.contains(source))
          ++missing_[at], heirs_[source].push_back(at);
        else if (const auto it = situation.ends.find(source); it != situation.ends.end())
          earliest_[at] = std::max(earliest_[at], it->second);
      if (missing_[at] == 0) later_.push({earliest_[at], at});
    }
  }

  // Returns which turn is next if a place is free at this moment, and raises the moment if nobody could begin then.
  size_t next(double& moment) {
    if (ready_.empty() && !later_.empty()) moment = std::max(moment, later_.top().first);
    for (; !later_.empty() && later_.top().first <= moment; later_.pop()) ready_.insert(later_.top().second);
    if (ready_.empty()) {  // they wait for one another, which nobody can ask for
      const auto left = std::ranges::find_if(missing_, [](size_t count) { return count > 0; });
      *left = 0, ready_.insert(static_cast<size_t>(left - missing_.begin()));
    }
    const size_t at = *ready_.begin();
    ready_.erase(ready_.begin());
    return at;
  }

  void ends(size_t at, double moment) {
    const auto heirs = heirs_.find(job(at).id);
    if (heirs == heirs_.end()) return;
    for (const size_t heir : heirs->second) {
      if (missing_[heir] == 0) continue;
      earliest_[heir] = std::max(earliest_[heir], moment);
      if (--missing_[heir] == 0) later_.push({earliest_[heir], heir});
    }
  }

 private:
  const WaitingJob& job(size_t at) const { return waiting_[turns_[at].job]; }

  const std::span<const WaitingJob> waiting_;
  const std::vector<Turn>& turns_;
  std::vector<size_t>
      missing_;  // by turn: how many of the jobs that it waits for have not begun in this run-down
  std::vector<double> earliest_;  // by turn: when those end that have
  std::unordered_map<std::string, std::vector<size_t>> heirs_;
  std::set<size_t> ready_;
  LeastFirst<std::pair<double, size_t>> later_;
};

}  // namespace

void forecast(std::span<const WaitingJob> waiting, const Situation& situation, std::vector<Turn>& turns) {
  LeastFirst<double> places;
  for (const double busy : situation.busy) places.push(std::max(0.0, busy));
  if (places.empty()) places.push(0);
  const auto begin = [&](Turn& turn, double moment) {
    turn.start_seconds = moment;
    places.pop();
    places.push(moment + planned_seconds(waiting[turn.job]) * situation.pace);
  };
  if (std::ranges::all_of(waiting, [](const WaitingJob& job) { return job.awaits.empty(); })) {
    for (Turn& turn : turns) begin(turn, places.top());
    return;
  }
  RunDown queue(waiting, situation, turns);
  for (size_t i = 0; i < turns.size(); ++i) {
    double moment = places.top();
    const size_t at = queue.next(moment);
    begin(turns[at], moment);
    queue.ends(at, moment + planned_seconds(waiting[turns[at].job]) * situation.pace);
  }
}

}  // namespace tachy::queue
