// Threads that answer requests, with a queue of bounded length.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tachy::http {

class LanePool {
 public:
  LanePool(int threads, size_t most_waiting);
  ~LanePool() { stop(); }
  LanePool(const LanePool&) = delete;
  LanePool& operator=(const LanePool&) = delete;

  // Returns false, and does nothing, while as many tasks wait as may. A task must not throw.
  bool add(std::function<void()> task);
  // Waits for the tasks that have begun; the others never begin.
  void stop();

 private:
  void work();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tachy::http
