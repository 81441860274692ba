#include "queue/sqlite_pool.h"

#include "base/error.h"
#include "queue/sqlite_schema.h"

namespace tachy::queue {
namespace {

// FULL: a change waits until the log is on the disk. The log is cut to this size when it has grown larger.
constexpr const char* kWriterSettings =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; "
    "PRAGMA journal_size_limit = 16777216";

void check_logged(Sqlite& database) {
  Query query = database.query("PRAGMA journal_mode");
  check(query.next() && query.text(0) == "wal", ErrorCode::io,
        "{}: its file system cannot hold a database that several threads use; choose a folder on a disk of "
        "this "
        "machine",
        database.file().string());
}

}  // namespace

SqlitePool::SqlitePool(const std::filesystem::path& file) : writer_(file, Sqlite::Access::write) {
  check_known(writer_);  // before anything is changed
  writer_.run(kWriterSettings);
  check_logged(writer_);
  migrate(writer_);
  put(take());  // a failure of the readers shows at the start
}

std::unique_ptr<Sqlite> SqlitePool::take() {
  {
    const std::lock_guard lock(readers_mutex_);
    if (!readers_.empty()) {
      auto reader = std::move(readers_.back());
      readers_.pop_back();
      return reader;
    }
  }
  return std::make_unique<Sqlite>(writer_.file(), Sqlite::Access::read);
}

void SqlitePool::put(std::unique_ptr<Sqlite> reader) {
  const std::lock_guard lock(readers_mutex_);
  readers_.push_back(std::move(reader));
}

}  // namespace tachy::queue
