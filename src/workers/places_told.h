// Which places in the queue are worth an event: that of a new job, and of one that comes forward noticeably.
// When a thousand jobs wait, each end moves all of them, and nobody wants a thousand events for that.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "queue/turn_queue.h"

namespace tachy::workers {

class PlacesTold {
 public:
  // Returns the indices of the jobs whose place is to be told: of those that are new, whose position is half
  // or twice of what was told last, or who are among the first and moved. Forgets those that wait no longer.
  std::vector<size_t> to_tell(std::span<const queue::TurnQueue::Next> order);

 private:
  std::map<std::string, int64_t, std::less<>> told_;
};

}  // namespace tachy::workers
