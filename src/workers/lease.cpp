#include "workers/lease.h"

#include "base/error.h"
#include "base/log.h"
#include "base/notice.h"

namespace tachy::workers {
namespace {

// A lease lasts for several beats, and this process stops to count on it a little before it ends.
constexpr double kBeatsOfALease = 6, kMarginOfALease = 0.1;
constexpr std::chrono::seconds kAfterFailure{1};

}  // namespace

Lease::Lease(queue::JobTable& table, std::string worker)
    : table_(table), worker_(std::move(worker)), seconds_(table.lease_seconds()) {}

Lease::~Lease() { stop(); }

void Lease::start(std::function<void()> lost) {
  if (!is_needed()) return;
  on_lost_ = std::move(lost);
  enlist();
  thread_ = std::thread([this] { work(); });
}

void Lease::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Lease::sure() const {
  return !is_needed() || (!lost_ && Clock::now().time_since_epoch() < until_.load());
}

// The time before the table was asked counts: its own time of the beat is later.
void Lease::counts_from(Clock::duration asked) {
  const std::chrono::duration<double> counts(seconds_ * (1 - kMarginOfALease));
  until_ = asked + std::chrono::duration_cast<Clock::duration>(counts);
}

void Lease::enlist() {
  const auto asked = Clock::now().time_since_epoch();
  table_.enlist(worker_);
  counts_from(asked);
}

void Lease::begin_again() {
  const std::lock_guard lock(beating_);
  enlist();
  lost_ = false;
}

std::optional<Lease::Held> Lease::beat() {
  const std::lock_guard lock(beating_);
  if (lost_) return std::nullopt;
  const auto asked = Clock::now().time_since_epoch();
  std::optional<Held> held;
  try {
    held = table_.heartbeat(worker_);
  } catch (const Error&) {
    reachable_ = false;
    throw;
  }
  reachable_ = true;
  if (!is_needed()) return held;
  if (!held) {
    if (!lost_.exchange(true))
      warn("this host was not heard of for {:.0f} s, so others have its jobs now: it stops them", seconds_);
    return held;
  }
  counts_from(asked);
  return held;
}

void Lease::work() {
  const std::chrono::duration<double> between(seconds_ / kBeatsOfALease);
  std::unique_lock lock(mutex_);
  bool told = false;
  while (!ending_) {
    lock.unlock();
    bool failed = false;
    try {
      const bool before = lost_;
      if (!beat() && !before) on_lost_();
      if (std::exchange(told, false)) say_line("the table of jobs can be reached again");
    } catch (const std::exception& e) {
      failed = true;
      if (!std::exchange(told, true))
        warn("the table of jobs cannot be reached, which is tried again: {}", e.what());
    }
    lock.lock();
    changed_.wait_for(lock, failed ? std::chrono::duration<double>(kAfterFailure) : between,
                      [&] { return ending_; });
  }
}

}  // namespace tachy::workers
