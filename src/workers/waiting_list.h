// The jobs that wait, in the order in which they will begin: who is next, and each one's place and expected
// start. It is made anew when the table changes, and looked at by everyone who asks for a job.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "queue/job_row.h"

namespace tachy::workers {

class WaitingList {
 public:
  struct Place {
    int64_t position = 0;      // 0 is next
    double start_seconds = 0;  // from the update on
    double seconds = 0;        // of computing, as planned
    int priority = 0;
  };
  // A change of somebody's place that is worth an event.
  struct Told {
    std::string id;
    Place place;
  };

  // `busy_seconds` are what the running jobs still take, `at_once` is how many run beside one another.
  // Returns the jobs whose place is to be told: new ones, those whose position halved or doubled, and those
  // among the first.
  std::vector<Told> update(std::vector<queue::WaitingJob> waiting, double busy_seconds, int at_once);

  std::optional<Place> find(const std::string& id) const;
  // Returns the place that a job of this priority would get.
  Place next_of(int priority) const;
  std::vector<queue::WaitingJob> in_order() const;  // those that may begin

 private:
  mutable std::mutex mutex_;
  std::vector<queue::WaitingJob> order_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, int64_t, std::less<>> told_;  // the position that was told last
  double busy_ = 0;
  int at_once_ = 1;
};

}  // namespace tachy::workers
