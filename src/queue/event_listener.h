// The functions that are woken when a job has another event. Private to src/queue.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tachy::queue {

// Somebody who is woken. Once the handle is dropped, nobody is woken any more, not even at this moment.
struct EventListener {
  std::recursive_mutex mutex;  // whoever is woken may drop its handle
  std::function<void()> wake;
  void call() {
    const std::lock_guard lock(mutex);
    if (const auto kept = wake) kept();
  }
  void drop() {
    const std::lock_guard lock(mutex);
    wake = nullptr;
  }
};
using EventListeners = std::vector<std::shared_ptr<EventListener>>;

}  // namespace tachy::queue
