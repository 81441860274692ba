// A thin owner of SQLite: a connection, its prepared statements, and errors that say which file and what to
// do.
//
//   Query query = database.query("SELECT place FROM jobs WHERE id = ?", id);
//   if (query.next()) place = query.real(0);
//
// A statement is prepared once for each text and kept with the connection. One thread at a time uses a
// connection; sqlite_pool.h says which. A file that another process is writing is waited for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace tachy::queue {

class Sqlite;

// A statement that is being run. Its end makes it free for the next run; only one of a text runs at a time.
class Query {
 public:
  Query(Sqlite& database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  ~Query();
  Query(Query&& other) noexcept
      : database_(other.database_), statement_(std::exchange(other.statement_, nullptr)) {}

  // Goes on to the next row, and returns false after the last one. Throws io.
  bool next();
  // The values of the row, counted from 0. What is NULL is 0 or "".
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;

 private:
  friend class Sqlite;
  void bind(int at, int64_t value);
  void bind(int at, double value);
  void bind(int at, std::string_view value);
  template <class T>
  void bind_any(int at, const T& value) {
    if constexpr (std::is_floating_point_v<T>)
      bind(at, static_cast<double>(value));
    else if constexpr (std::is_integral_v<T>)
      bind(at, static_cast<int64_t>(value));
    else
      bind(at, std::string_view(value));
  }

  Sqlite& database_;
  sqlite3_stmt* statement_;
};

class Sqlite {
 public:
  enum class Access { read, write };
  // Opens the file; with `write` it is made where it is missing, and a file that can only be read is refused.
  // Throws io.
  Sqlite(const std::filesystem::path& file, Access access);
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  // Runs statements without values whose rows nobody wants.
  void run(const char* sql);
  // Begins a statement, with a value for each "?". `sql` is a literal: it lives as long as the program.
  template <class... Values>
  Query query(std::string_view sql, const Values&... values) {
    Query begun(*this, prepared(sql));
    int at = 0;
    (begun.bind_any(++at, values), ...);
    return begun;
  }
  // Runs a statement to its end, and returns how many rows it has changed.
  template <class... Values>
  int64_t change(std::string_view sql, const Values&... values) {
    {
      Query running = query(sql, values...);
      while (running.next()) {
      }
    }
    return changed();
  }
  int64_t changed() const;  // by the last statement that ended
  bool in_transaction() const;

  const std::filesystem::path& file() const { return file_; }
  [[noreturn]] void fail_now(std::string_view doing) const;  // throws what went wrong last

 private:
  sqlite3_stmt* prepared(std::string_view sql);

  std::filesystem::path file_;
  sqlite3* database_ = nullptr;
  std::map<std::string_view, sqlite3_stmt*> statements_;
};

// A change that is whole or not there. It takes the right to write when it begins, so that what it reads
// stays true; without commit() it is taken back.
class Transaction {
 public:
  explicit Transaction(Sqlite& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();  // it is on the disk when this returns; throws io

 private:
  Sqlite& database_;
  bool open_ = true;
};

}  // namespace tachy::queue
