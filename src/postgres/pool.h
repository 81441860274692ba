// The connections to one database that the threads of a process take in turn, and the database's clock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "postgres/connection.h"

namespace tachy::postgres {

class Pool {
 public:
  static constexpr int kMost = 8;  // connections at the same time

  // Opens the first connection. A database that cannot be reached is tried for `patience_seconds`. Throws
  // what Connection's constructor throws.
  Pool(std::string address, std::string schema, double patience_seconds);

  // Calls `body(connection, again)`. If the connection is lost, the body is called once more with a new one
  // and with `again`, since the first call may have been committed. A change that was in the way of another
  // one is made again, too. Throws Unreachable while the database is away.
  template <class Body>
  auto run(Body&& body) {
    bool again = false;
    for (int tries = 0;; ++tries) {
      Lease lease(*this);
      try {
        return body(*lease.connection, again);
      } catch (const Refused& error) {
        if (!was_in_the_way(error) || tries >= kMostTries) throw;
      } catch (const Unreachable&) {
        lease.connection.reset();
        forget_idle();
        if (std::exchange(again, true)) throw;
      }
    }
  }
  // Calls `body` in a transaction, which is committed when it returns.
  template <class Body>
  auto change(Body&& body) {
    return run([&](Connection& connection, bool again) {
      Transaction transaction(connection);
      if constexpr (std::is_void_v<decltype(body(connection, again))>) {
        body(connection, again);
        transaction.commit();
      } else {
        auto result = body(connection, again);
        transaction.commit();
        return result;
      }
    });
  }

  // Returns the database's time in milliseconds since 1970, as it was told and has gone on since. Never
  // throws.
  int64_t now_ms() const;

  const std::string& address() const { return address_; }
  const std::string& schema() const { return schema_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMostTries = 10;
  struct Idle {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
  };
  struct Lease {
    explicit Lease(Pool& pool) : pool(pool), connection(pool.take()) {}
    ~Lease() { pool.put(std::move(connection)); }
    Pool& pool;
    std::unique_ptr<Connection> connection;  // null: it is lost
  };
  static bool was_in_the_way(const Refused& error) {
    return error.state == "40001" || error.state == "40P01";
  }

  std::unique_ptr<Connection> take();
  std::unique_ptr<Connection> open();
  void put(std::unique_ptr<Connection> connection);
  void forget_idle();
  void read_clock(Connection& connection);

  const std::string address_, schema_;
  std::atomic<int64_t> ahead_ms_{0};  // of the database's time before this process's steady clock
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Idle> idle_;
  int open_ = 0;  // those in use and those that are idle
  bool away_ = false, trying_ = false;
  std::string reason_;
  Clock::time_point next_try_{}, clock_read_{};
};

}  // namespace tachy::postgres
