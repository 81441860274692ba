#include "workers/plan_ahead.h"

#include <exception>
#include <utility>

namespace tachy::workers {

PlanAhead::~PlanAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PlanAhead::want(queue::JobRow row) {
  {
    const std::lock_guard lock(mutex_);
    if (now_ == row.id) return;
    wanted_ = std::move(row);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  news_.notify_all();
}

bool PlanAhead::failed(const queue::JobRow& row) const {
  const std::lock_guard lock(mutex_);
  return failed_ && failed_->id == row.id && failed_->settings == row.settings;
}

void PlanAhead::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [&] { return ending_ || wanted_; });
    if (ending_) return;
    queue::JobRow row = std::move(*wanted_);
    wanted_.reset();
    now_ = row.id;
    lock.unlock();
    bool well = true;
    try {
      make_(row, ending_);
    } catch (const std::exception&) {
      well = false;
    }
    lock.lock();
    now_.clear();
    if (!well) failed_ = std::move(row);
    lock.unlock();
    made_();
    lock.lock();
  }
}

}  // namespace tachy::workers
