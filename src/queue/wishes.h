// The rules about wishes and charges that every table of jobs keeps.
#pragma once

#include <algorithm>

#include "queue/job_row.h"

namespace tachy::queue {

// Returns the wish that counts when a second one comes for a running job: nothing takes a cancel back, and a
// cancel that keeps nothing is the stronger one.
inline Wish joined(Wish now, Wish next) {
  if (now == Wish::cancel || next == Wish::cancel) return Wish::cancel;
  if (now == Wish::cancel_keeping_frames) return now;
  return next;
}

inline bool is_cancel(Wish wish) { return wish == Wish::cancel || wish == Wish::cancel_keeping_frames; }

// Returns the error of a job that is cancelled while nobody has it.
inline JobError cancelled_while_queued(const JobRow& row) {
  return {"cancelled", row.attempts > 0 ? "the video was cancelled while it waited to be continued"
                                        : "the video was cancelled before it was begun"};
}

// Returns the part of the charged seconds that a job which ends early has not used.
inline double unused_seconds(const JobRow& job) {
  if (job.attempts == 0 || job.status == Status::completed) return 0;
  return job.planned_seconds * (100 - std::clamp(job.progress, 0, 100)) / 100;
}

// How long a caller's key finds its job again.
inline constexpr int64_t kIdempotencyMs = int64_t{24} * 3600 * 1000;

constexpr int64_t number(Status status) { return static_cast<int64_t>(status); }
constexpr int64_t number(Wish wish) { return static_cast<int64_t>(wish); }

}  // namespace tachy::queue
