// The engine of the C interface.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

#include "api/tachyscope.h"
#include "api/tachyscope_c.h"

struct tachyscope_engine {
  tachy::Engine engine;
  std::mutex mutex{};
  std::set<std::atomic<bool>*> runs{};  // the flag that cancels each run in progress

  void cancel_all() {
    const std::lock_guard lock(mutex);
    for (std::atomic<bool>* cancel : runs) *cancel = true;
  }
};
