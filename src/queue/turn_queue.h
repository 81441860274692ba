// The turns of the jobs that wait, kept up to date with the table. The policy's order is computed anew only
// when the table or what runs has changed, so that every poll may ask for its place. It also keeps the
// account of who was passed over. That account is in memory: after a restart each job is as patient as at
// first.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "queue/job_table.h"
#include "queue/policy.h"

namespace tachy::queue {

class TurnQueue {
 public:
  using Ends = std::unordered_map<std::string, double>;  // by the ids of jobs

  explicit TurnQueue(JobTable& table) : table_(table) {}

  // Is told of what runs: the needs in memory (the latest first), for each place at which jobs run how many
  // seconds it is still taken (0: free), how many seconds a planned one takes, and in how many seconds the jobs
  // end that run (infinity: nobody knows). To be called whenever one of them changes.
  void set(std::vector<std::string> loaded, std::vector<double> busy, double pace, Ends ends = {});

  struct Next {
    WaitingJob job;
    double start_seconds = 0;
    bool may_begin = false;  // see Turn
  };
  std::vector<Next> order();  // of all that wait and are not paused, the next one first

  std::vector<WaitingJob> awaiting();  // those that wait for other jobs, paused ones, too

  struct Place {
    int64_t position = 0;      // 0 is next
    double start_seconds = 0;  // from now, as far as plans tell
  };
  std::optional<Place> find(const std::string& id);  // nothing: it does not wait, or it is paused
  // As find(), but only if it takes no time: false, and `place` is as it was, if the order is to be computed first.
  // While another thread computes it, the place in the order before counts.
  bool find_now(const std::string& id, std::optional<Place>& place);
  // Returns the place that a job would get if it were put into the table now.
  Place would_get(WaitingJob job);

  // Takes the job from the table as JobTable::claim() does, and notes whom it passes over.
  std::optional<JobRow> claim(const std::string& id, const std::string& worker);

 private:
  using Clock = std::chrono::steady_clock;
  struct Snapshot {
    uint64_t version = 0;
    Clock::time_point made;
    Situation situation;
    std::vector<WaitingJob> waiting;
    std::vector<Turn> turns;
    std::unordered_map<std::string, size_t> at;  // a job's index in `turns`
  };
  std::shared_ptr<const Snapshot> fresh();
  std::shared_ptr<const Snapshot> computed(std::unique_lock<std::mutex>& lock);
  bool is_fresh(Clock::time_point now) const;
  static std::optional<Place> place_in(const Snapshot& snapshot, const std::string& id);
  Situation situation_at(Clock::time_point now) const;

  JobTable& table_;
  std::mutex mutex_;
  std::condition_variable computed_;
  bool computing_ = false;
  bool changed_ = true;  // since the snapshot, beside the table
  std::vector<std::string> loaded_;
  std::vector<Clock::time_point> busy_until_ = {Clock::time_point()};
  double pace_ = 1;
  std::unordered_map<std::string, Clock::time_point> ends_;  // max: nobody knows
  std::unordered_map<std::string, double> passed_over_;
  std::shared_ptr<const Snapshot> snapshot_;
};

}  // namespace tachy::queue
