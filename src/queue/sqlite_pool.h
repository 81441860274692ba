// The connections of one database: one that writes, which its users take in turn, and as many that read as
// threads read at the same time. With SQLite's log (WAL) a reader sees what was last committed and never
// waits for a writer, nor for the disk on which the writer waits.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "queue/sqlite.h"

namespace tachy::queue {

class SqlitePool {
 public:
  // Opens the file and brings its tables to today's version. Throws io and unsupported.
  explicit SqlitePool(const std::filesystem::path& file);

  // Calls `body` with the writer's connection, in a transaction that is committed when it returns.
  template <class Body>
  auto write(Body&& body) {
    const std::lock_guard lock(write_mutex_);
    Transaction transaction(writer_);
    if constexpr (std::is_void_v<decltype(body(writer_))>) {
      body(writer_);
      transaction.commit();
    } else {
      auto result = body(writer_);
      transaction.commit();
      return result;
    }
  }
  // Calls `body` with a connection that reads.
  template <class Body>
  auto read(Body&& body) {
    const Lease lease(*this);
    return body(*lease.reader);
  }

 private:
  struct Lease {
    explicit Lease(SqlitePool& pool) : pool(pool), reader(pool.take()) {}
    ~Lease() { pool.put(std::move(reader)); }
    SqlitePool& pool;
    std::unique_ptr<Sqlite> reader;
  };
  std::unique_ptr<Sqlite> take();
  void put(std::unique_ptr<Sqlite> reader);

  std::mutex write_mutex_;
  Sqlite writer_;
  std::mutex readers_mutex_;
  std::vector<std::unique_ptr<Sqlite>> readers_;  // those that nobody uses now
};

}  // namespace tachy::queue
