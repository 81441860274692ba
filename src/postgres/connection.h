// A connection to a database, its statements and their rows.
//
//   const Rows rows = connection.query("SELECT place FROM jobs WHERE id = $1", id);
//   if (!rows.empty()) place = rows.real(0, 0);
//
// A statement is prepared once for each text and connection. One thread at a time uses a connection (pool.h).
#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/os/handle.h"
#include "postgres/libpq.h"

namespace tachy::postgres {

// The database cannot be reached, or is going down. Whether a change that was under way was made is unknown.
class Unreachable : public Error {
 public:
  using Error::Error;
};

// The database refused a statement: `state` is its SQLSTATE, such as "23505".
class Refused : public Error {
 public:
  Refused(std::string state, std::string message)
      : Error(ErrorCode::io, std::move(message)), state(std::move(state)) {}
  std::string state;
};

// The rows that a statement has returned, counted from 0, as are their columns. What is NULL is 0 or "".
class Rows {
 public:
  explicit Rows(pg_result* result) : result_(result, libpq().clear) {}
  int count() const { return libpq().rows(result_.get()); }
  int columns() const { return libpq().columns(result_.get()); }
  bool empty() const { return count() == 0; }
  int64_t changed() const;  // how many rows the statement has changed
  int64_t integer(int row, int column) const;
  double real(int row, int column) const;
  bool truth(int row, int column) const { return *libpq().value(result_.get(), row, column) == 't'; }
  std::string text(int row, int column) const;
  bool is_null(int row, int column) const { return libpq().is_null(result_.get(), row, column) != 0; }

 private:
  std::unique_ptr<pg_result, void (*)(pg_result*)> result_;
};

class Connection {
 public:
  // `schema` is the one in which names are looked up. Throws Unreachable, and io if the database refuses
  // it: a wrong password, a database that is not there.
  Connection(const std::string& address, const std::string& schema);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs statements without values whose rows nobody wants.
  void run(const std::string& sql);
  // Runs a statement with a value for each "$1". `sql` is a literal, or lives as long as the program.
  template <class... Values>
  Rows query(std::string_view sql, const Values&... values) {
    const std::optional<std::string> texts[] = {text_of(values)..., std::nullopt};
    return run_prepared(sql, texts, sizeof...(values));
  }
  template <class... Values>
  int64_t change(std::string_view sql, const Values&... values) {
    return query(sql, values...).changed();
  }

  bool usable() const;
  // For listener.h.
  os::Handle socket() const;
  bool read_input();                          // false: the connection is lost
  std::optional<std::string> next_message();  // of any channel; nothing: there is none left

 private:
  template <class T>
  static std::optional<std::string> text_of(const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      return value ? "t" : "f";
    else if constexpr (std::is_arithmetic_v<T>)
      return fmt::format("{}", value);
    else if constexpr (std::is_convertible_v<const T&, std::string_view>)
      return std::string(std::string_view(value));
    else
      return value ? text_of(*value) : std::nullopt;  // an optional
  }
  Rows run_prepared(std::string_view sql, const std::optional<std::string>* values, size_t count);
  Rows checked(pg_result* result);
  const std::string& prepared(std::string_view sql);

  std::string shown_;
  pg_conn* connection_ = nullptr;
  std::map<std::string_view, std::string> statements_;  // their names at the server
};

// A change that is whole or not there; without commit() it is taken back.
class Transaction {
 public:
  explicit Transaction(Connection& connection) : connection_(connection) { connection_.run("BEGIN"); }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace tachy::postgres
