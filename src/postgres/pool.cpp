#include "postgres/pool.h"

#include <thread>

#include "base/log.h"

namespace tachy::postgres {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{250};
constexpr std::chrono::seconds kMostWait{10}, kKeptIdle{30}, kBetweenClocks{60};

int64_t steady_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Pool::Pool(std::string address, std::string schema, double patience_seconds)
    : address_(std::move(address)), schema_(std::move(schema)) {
  const auto until = Clock::now() + std::chrono::duration<double>(patience_seconds);
  for (bool told = false;;) try {
      put(take());
      return;
    } catch (const Unreachable& error) {
      if (Clock::now() >= until) throw;
      if (!std::exchange(told, true)) warn("{}; it is tried again", error.message());
      std::this_thread::sleep_for(kBetweenTries);
    }
}

std::unique_ptr<Connection> Pool::take() {
  std::unique_lock lock(mutex_);
  check(freed_.wait_for(lock, kMostWait, [&] { return !idle_.empty() || open_ < kMost; }), ErrorCode::io,
        "the connections to the database have all been in use for a long time");
  std::unique_ptr<Connection> connection;
  if (!idle_.empty()) {
    connection = std::move(idle_.back().connection);
    idle_.pop_back();
  } else {
    if (away_ && (trying_ || Clock::now() < next_try_)) throw Unreachable(ErrorCode::io, reason_);
    trying_ = away_, ++open_;
    lock.unlock();
    connection = open();
    lock.lock();
  }
  const bool due = Clock::now() - clock_read_ >= kBetweenClocks;
  if (due) clock_read_ = Clock::now();
  lock.unlock();
  if (due) read_clock(*connection);
  return connection;
}

// Notes whether the database is away, so that others need not find out.
std::unique_ptr<Connection> Pool::open() try {
  auto connection = std::make_unique<Connection>(address_, schema_);
  const std::lock_guard lock(mutex_);
  away_ = trying_ = false;
  return connection;
} catch (const Unreachable& error) {
  const std::lock_guard lock(mutex_);
  --open_, trying_ = false, away_ = true, reason_ = error.message(), next_try_ = Clock::now() + kBetweenTries;
  freed_.notify_one();
  throw;
} catch (...) {
  const std::lock_guard lock(mutex_);
  --open_, trying_ = false;
  freed_.notify_one();
  throw;
}

void Pool::put(std::unique_ptr<Connection> connection) {
  std::vector<Idle> old;  // is closed without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (connection && connection->usable())
      idle_.push_back({std::move(connection), now});
    else
      --open_;
    while (idle_.size() > 1 && now - idle_.front().since > kKeptIdle) {
      old.push_back(std::move(idle_.front()));
      idle_.erase(idle_.begin()), --open_;
    }
  }
  freed_.notify_one();
}

void Pool::forget_idle() {
  std::vector<Idle> lost;
  const std::lock_guard lock(mutex_);
  lost.swap(idle_);
  open_ -= static_cast<int>(lost.size());
  clock_read_ = {};
}

// The half of the way there and back counts.
void Pool::read_clock(Connection& connection) try {
  const int64_t before = steady_ms();
  const int64_t told =
      connection.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").integer(0, 0);
  ahead_ms_ = told - (before + steady_ms()) / 2;
} catch (const Error&) {
  // Whoever uses the connection next finds out why.
}

int64_t Pool::now_ms() const { return ahead_ms_ + steady_ms(); }

}  // namespace tachy::postgres
