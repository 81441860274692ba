#include "workers/errands.h"

#include <algorithm>
#include <utility>

namespace tachy::workers {

Errands::~Errands() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Errands::want(const std::string& name, std::function<void()> run) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || std::ranges::find(errands_, name, &Errand::name) != errands_.end()) return false;
    errands_.push_back({name, std::move(run)});
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  news_.notify_all();
  return true;
}

void Errands::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [&] { return ending_ || !errands_.empty(); });
    if (ending_) return;
    const std::function<void()> run = std::move(errands_.front().run);
    lock.unlock();
    run();
    lock.lock();
    errands_.pop_front();
  }
}

}  // namespace tachy::workers
