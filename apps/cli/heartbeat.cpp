#include "heartbeat.h"

#include <chrono>
#include <system_error>

#include "base/clock.h"
#include "say.h"

namespace tachy::cli {
namespace {

// If a sign of life cannot be written (a full disk, a closed descriptor), that is no reason to end the work.
bool print(const std::string& line) {
  try {
    say(stderr, line + "\n");
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

void Heartbeat::begin(const std::string& line) {
  const std::lock_guard lock(mutex_);
  print(line);
  line_ = nullptr;
  next_ = monotonic_seconds() + every_seconds_;
  changed_.notify_all();
  if (thread_.joinable()) return;
  stop_ = false;
  try {
    thread_ = std::thread([this] { beat(); });
  } catch (const std::system_error&) {
    // If no memory is left for a thread, the first line is printed all the same.
  }
}

void Heartbeat::update(std::function<std::string(double)> line) {
  const std::lock_guard lock(mutex_);
  line_ = std::move(line), updated_ = monotonic_seconds();
}

void Heartbeat::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::beat() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const double wait = next_ - monotonic_seconds();
    if (wait > 0) {
      changed_.wait_for(lock, std::chrono::duration<double>(wait));
      continue;
    }
    if (line_ && !print(line_(monotonic_seconds() - updated_))) return;
    next_ = monotonic_seconds() + every_seconds_;
  }
}

}  // namespace tachy::cli
