// The functions of this process that are called when another one has changed something. A message has the
// name of the process that sends it, and that of the worker for which it is ("": all of them). Private to
// src/queue.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/random_bytes.h"

namespace tachy::queue {

class PostgresWakes : public std::enable_shared_from_this<PostgresWakes> {
 public:
  // A handle that is dropped waits until its function has returned.
  std::shared_ptr<void> add(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    const auto at = wakes_.insert(wakes_.end(), std::move(wake));
    return std::shared_ptr<void>(&*at, [self = shared_from_this(), at](void*) {
      const std::lock_guard lock(self->mutex_);
      self->wakes_.erase(at);
    });
  }
  void add_worker(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(workers_, name) == workers_.end()) workers_.push_back(name);
  }
  std::string message_for(const std::string& worker) const { return self_ + " " + worker; }
  // Says whether a message is for this process. One without text stands for all that may have been missed.
  bool concerns(const std::string& message) {
    const std::lock_guard lock(mutex_);
    const size_t space = message.find(' ');
    if (space == message.npos) return message.empty();
    const std::string worker = message.substr(space + 1);
    return message.compare(0, space, self_) != 0 &&
           (worker.empty() || std::ranges::find(workers_, worker) != workers_.end());
  }
  void call() {
    const std::lock_guard lock(mutex_);
    for (const auto& wake : wakes_) wake();
  }

 private:
  const std::string self_ = random_hex(12);
  std::mutex mutex_;
  std::list<std::function<void()>> wakes_;
  std::vector<std::string> workers_;  // those of this process
};

}  // namespace tachy::queue
