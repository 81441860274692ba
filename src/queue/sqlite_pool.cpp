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

// Damage that is found at the start is found before anything depends on it. A file of 10,000 jobs takes 60
// ms; one that is much larger is not read whole.
constexpr uintmax_t kMostCheckedBytes = 64 << 20;

void check_whole(Sqlite& database) {
  std::error_code error;
  if (std::filesystem::file_size(database.file(), error) > kMostCheckedBytes || error) return;
  Query query = database.query("PRAGMA quick_check(1)");
  if (!query.next() || query.text(0) == "ok") return;
  fail(ErrorCode::io,
       "{}: the table of jobs is damaged ({}): restore it from a copy, or move it away to begin with an "
       "empty table",
       database.file().string(), query.text(0));
}

}  // namespace

SqlitePool::SqlitePool(const std::filesystem::path& file) : writer_(file, Sqlite::Access::write) {
  check_known(writer_);  // before anything is changed
  writer_.run(kWriterSettings);
  check_logged(writer_);
  check_whole(writer_);
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
