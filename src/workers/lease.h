// This process's lease on its jobs, in a table that several hosts share (queue/job_table.h). A thread
// renews it, so that nothing which a dispatcher waits for can end it.
//
// Whoever is about to write what only the owner of a job may write asks sure() first. It goes by this
// process's own clock: for as long as the last heartbeat that was answered still counts, nobody else can
// have the job. While the table cannot be reached, jobs go on, but what they have made waits to be written.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "queue/job_table.h"

namespace tachy::workers {

class Lease {
 public:
  using Held = std::vector<queue::HeldJob>;
  Lease(queue::JobTable& table, std::string worker);
  ~Lease();  // as stop()
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Enlists, and begins to renew. `lost` is called in the thread when the lease turns out to be lost.
  // Throws io.
  void start(std::function<void()> lost);
  void stop();

  // Renews it now, and returns the jobs that the table says are this worker's; nothing once it is lost.
  // Throws io.
  std::optional<Held> beat();
  // Begins a new lease, when all jobs of the lost one have ended.
  void begin_again();

  bool lost() const { return lost_; }
  bool sure() const;
  // Says whether the table has answered lately.
  bool reachable() const { return reachable_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_needed() const { return seconds_ > 0; }
  void enlist();
  void work();
  void counts_from(Clock::duration asked);

  queue::JobTable& table_;
  const std::string worker_;
  const double seconds_;
  std::function<void()> on_lost_;
  std::atomic<bool> lost_ = false, reachable_ = true;
  std::atomic<Clock::duration> until_{};  // for how long it counts, by this process's clock

  std::mutex beating_;  // one beat at a time, and none while a new lease begins
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tachy::workers
