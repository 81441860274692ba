// When the jobs that wait will begin, by the plans of those in front: a run-down of the queue on the places at which jobs
// run. A job that waits for others leaves its turn to the next one until they end. It takes O(n log n).
#pragma once

#include <span>
#include <vector>

#include "queue/policy.h"

namespace tachy::queue {

// Fills in start_seconds of turns that are in order: infinity for a job that waits for one of which nobody knows when
// it ends.
void forecast(std::span<const WaitingJob> waiting, const Situation& situation, std::vector<Turn>& turns);

}  // namespace tachy::queue
