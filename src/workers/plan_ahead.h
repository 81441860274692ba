// Makes plans in a thread of its own for the dispatcher, which decides by them who fits beside whom. To read a job's
// inputs, open its model and plan it may take seconds, in which the dispatcher has other things to decide.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "queue/job_row.h"

namespace tachy::workers {

class PlanAhead {
 public:
  // `make` plans a job and keeps the plan; it gives up soon after `cancel` is set. `made` is called after it, however
  // it has ended. Both are called in the thread.
  using Make = std::function<void(const queue::JobRow& row, const std::atomic<bool>& cancel)>;
  PlanAhead(Make make, std::function<void()> made) : make_(std::move(make)), made_(std::move(made)) {}
  ~PlanAhead();
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  // Returns at once. Of the jobs that are asked for while another one is planned, only the last one is kept: it is
  // the one that the dispatcher needs now.
  void want(queue::JobRow row);
  // Says whether `make` threw for this job with these settings.
  bool failed(const queue::JobRow& row) const;

 private:
  void work();

  const Make make_;
  const std::function<void()> made_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::optional<queue::JobRow> wanted_;
  std::string now_;                      // the id of the job that is being planned
  std::optional<queue::JobRow> failed_;  // the last one
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace tachy::workers
