// The order in which the jobs that wait are begun, as a pure function: the same input gives the same order.
//
//   1. Priorities come first: no job is begun before one of a higher priority.
//   2. A job that was begun and interrupted goes on before others of its priority begin. Its owner has paid for
//      it.
//   3. Between owners it is fair: the turn is with the owner whose jobs have used the fewest planned seconds
//      lately, and what an owner's turn would use is added before the next turn is given. So an owner with ten
//      long jobs and one with a hundred short ones get the same time, not the same number of jobs. Within an
//      owner the places of the jobs count. What was used is forgotten by half in each half-life of
//      kHalfLifeSeconds.
//   4. Jobs are grouped: a job whose `needs` are in memory goes before others of its priority, although their
//      turn was earlier. The bound: each job may be passed over in this way by jobs of at most
//          patience = kPatienceSeconds + its own planned seconds
//      in all, counted in their planned seconds, for as long as it waits. The longer a job takes itself, the
//      less a wait matters to it, and a short one is passed over for hardly more than a minute. Time alone
//      would not do as a measure: in a long queue all jobs wait long, and that is where grouping saves the
//      most. Whoever takes a job out of turn tells those in front (turn_queue.h keeps the account).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "queue/job_row.h"

namespace tachy::queue {

inline constexpr double kHalfLifeSeconds = 1800, kPatienceSeconds = 60;

// Returns how many of the seconds that were used at `then_ms` still count.
double still_counted(double seconds, int64_t then_ms, int64_t now_ms);

// Everything beside the waiting jobs on which their order depends.
struct Situation {
  std::vector<std::string> loaded;     // the `needs` that are in memory, the latest one first
  std::map<std::string, double> used;  // by owner: JobTable::used_seconds()
  std::unordered_map<std::string, double>
      passed_over;  // by job: how many planned seconds have passed it over
  // How many seconds each of the places at which jobs run is still taken; 0: it is free.
  std::vector<double> busy = {0};
  std::unordered_map<std::string, double>
      ends;         // of the jobs that run: the seconds until then; infinity: nobody knows
  double pace = 1;  // seconds that were seen for a planned one
};

struct Turn {
  size_t job = 0;            // its index among the jobs that were given
  double start_seconds = 0;  // from now, by the plans of those in front (forecast.h)
  // Whether it may begin now without passing anybody of its priority over for too long. Whoever has room for
  // it beside what runs, but none for those in front of it, asks this.
  bool may_begin = false;
};

// Returns the jobs in the order in which they will be begun if nothing else comes; paused ones are left out.
// It takes O(n log n). The order after the first is a forecast: it supposes that a job's needs take the place
// of those that have been in memory the longest.
std::vector<Turn> turns(std::span<const WaitingJob> waiting, const Situation& situation);

// Returns the jobs of the same priority that are passed over if this one is begun now: those whose turn is
// earlier.
std::vector<size_t> passed_by(std::span<const WaitingJob> waiting, const Situation& situation, size_t job);

// A job's planned seconds, at least one: also a job of which nothing is known counts.
double planned_seconds(const WaitingJob& job);

}  // namespace tachy::queue
