#include "queue/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace tachy::queue {
namespace {

constexpr int kBusyMs = 10'000;  // how long another process's change is waited for

// Returns what a failure means for whoever runs the server, or "".
const char* remedy(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "; there is no room on its disk";
    case SQLITE_READONLY:
      return "; its file, folder or disk can only be read";
    case SQLITE_CORRUPT:
      return "; the file is damaged: restore it from a copy, or move it away to begin with an empty table";
    case SQLITE_NOTADB:
      return "; the file is damaged or was not written by this program";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; another process has been writing it for a long time";
    default:
      return "";
  }
}

bool has_system_reason(int code) {
  const int kind = code & 0xff;
  return kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_FULL;
}

}  // namespace

Query::~Query() {
  if (!statement_) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

bool Query::next() {
  errno = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail_now("cannot use the table of jobs");
  return false;
}

int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Query::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Query::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text ? std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

void Query::bind(int at, int64_t value) {
  if (sqlite3_bind_int64(statement_, at, value) != SQLITE_OK) database_.fail_now("cannot use a number");
}
void Query::bind(int at, double value) {
  if (sqlite3_bind_double(statement_, at, value) != SQLITE_OK) database_.fail_now("cannot use a number");
}
void Query::bind(int at, std::string_view value) {
  // A view of nothing would be NULL.
  const char* text = value.data() ? value.data() : "";
  if (sqlite3_bind_text64(statement_, at, text, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK)
    database_.fail_now("cannot use a text");
}

Sqlite::Sqlite(const std::filesystem::path& file, Access access) : file_(file) {
  const bool write = access == Access::write;
  const int how = (write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY) |
                  SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  try {
    if (sqlite3_open_v2(file.c_str(), &database_, how, nullptr) != SQLITE_OK)
      fail_now("cannot open the table of jobs");
    sqlite3_busy_timeout(database_, kBusyMs);
    // SQLite falls back to reading without saying so.
    check(!write || sqlite3_db_readonly(database_, "main") == 0, ErrorCode::io,
          "{}: cannot write the table of jobs: its file, folder or disk can only be read", file.string());
  } catch (...) {
    sqlite3_close(database_);
    throw;
  }
}

Sqlite::~Sqlite() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(database_);
}

void Sqlite::run(const char* sql) {
  errno = 0;
  if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    fail_now("cannot use the table of jobs");
}

sqlite3_stmt* Sqlite::prepared(std::string_view sql) {
  if (const auto it = statements_.find(sql); it != statements_.end()) {
    check(!sqlite3_stmt_busy(it->second), ErrorCode::internal, "a statement is run within itself: {}", sql);
    return it->second;
  }
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                         &statement, nullptr) != SQLITE_OK)
    fail_now("cannot use the table of jobs");
  statements_.emplace(sql, statement);
  return statement;
}

int64_t Sqlite::changed() const { return sqlite3_changes64(database_); }
bool Sqlite::in_transaction() const { return sqlite3_get_autocommit(database_) == 0; }

void Sqlite::fail_now(std::string_view doing) const {
  if (!database_) fail(ErrorCode::io, "{}: {}: memory is short", file_.string(), doing);
  // SQLite keeps the system's reason on some ways only.
  const int last = errno, kept = sqlite3_system_errno(database_), system = kept != 0 ? kept : last;
  const int code = sqlite3_extended_errcode(database_);
  std::string reason = sqlite3_errmsg(database_);
  if (has_system_reason(code) && system != 0)
    reason += fmt::format(" ({})", std::error_code(system, std::generic_category()).message());
  fail(ErrorCode::io, "{}: {}: {}{}", file_.string(), doing, reason, remedy(code));
}

Transaction::~Transaction() {
  if (!open_ || !database_.in_transaction()) return;  // some failures have taken it back already
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {  // whoever unwinds has the first reason, which is the telling one
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace tachy::queue
