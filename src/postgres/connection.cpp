#include "postgres/connection.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "postgres/address.h"

namespace tachy::postgres {
namespace {

// A network that was cut is noticed within ten seconds, whether something was sent or not. Values of the
// address go before these.
constexpr const char* kKeywords[] = {"connect_timeout",  "keepalives_idle",  "keepalives_interval",
                                     "keepalives_count", "tcp_user_timeout", "application_name",
                                     "client_encoding",  "dbname",           nullptr};
constexpr const char* kValues[] = {"5", "4", "2", "3", "8000", "tachyscope", "UTF8"};

constexpr const char* kSettings =
    "SET client_min_messages = warning; SET statement_timeout = '60s'; SET lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '60s'";

void drop_notice(void*, const pg_result*) {}

// Returns libpq's message as part of a line. It never has the password.
std::string in_one_line(const char* text) {
  std::string line = text ? text : "";
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.pop_back();
  std::ranges::replace(line, '\n', ' ');
  std::erase(line, '\t');
  return line.empty() ? "no reason was given" : line;
}

// Says whether a SQLSTATE means that the connection or the server is gone, or that there is no room for one
// more.
bool is_away(std::string_view state) {
  return state.starts_with("08") || state == "57P01" || state == "57P02" || state == "57P03" ||
         state == "53300";
}

// Returns what a refusal means for whoever runs the server, or "".
const char* remedy(std::string_view state) {
  if (state == "42501") return "; the database's user lacks this right (GRANT gives it)";
  if (state == "53100") return "; there is no room on the database's disk";
  if (state == "25006") return "; the database can only be read: name the one that is written";
  if (state == "55P03" || state == "57014") return "; another session has been in its way for a long time";
  return "";
}

}  // namespace

int64_t Rows::changed() const {
  const char* text = libpq().changed(result_.get());
  return *text ? std::strtoll(text, nullptr, 10) : 0;
}
int64_t Rows::integer(int row, int column) const {
  return std::strtoll(libpq().value(result_.get(), row, column), nullptr, 10);
}
double Rows::real(int row, int column) const {
  const char* text = libpq().value(result_.get(), row, column);
  double value = 0;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}
std::string Rows::text(int row, int column) const {
  return {libpq().value(result_.get(), row, column),
          static_cast<size_t>(libpq().length(result_.get(), row, column))};
}

Connection::Connection(const std::string& address, const std::string& schema)
    : shown_(shown_address(address)) {
  const LibPq& pq = libpq();
  const char* values[std::size(kKeywords)] = {};
  std::copy(std::begin(kValues), std::end(kValues), values);
  values[std::size(kValues)] = address.c_str();
  connection_ = pq.connect(kKeywords, values, 1);
  check(connection_ != nullptr, ErrorCode::out_of_memory, "libpq has no memory");
  try {
    if (!usable()) {
      const std::string reason = in_one_line(pq.error_message(connection_));
      // A server that answers and refuses says FATAL; one that begins or ends says so, and is there soon.
      const bool refused =
          reason.find("FATAL:") != reason.npos && reason.find("the database system is") == reason.npos &&
          reason.find("too many") == reason.npos && reason.find("terminating connection") == reason.npos &&
          reason.find("connection slots") == reason.npos;
      const std::string text = fmt::format("{}: cannot open the database: {}", shown_, reason);
      if (refused || pq.needs_password(connection_)) throw Refused("28000", text);
      throw Unreachable(ErrorCode::io, text);
    }
    pq.set_notices(connection_, drop_notice, nullptr);
    run(kSettings);
    query("SELECT set_config('search_path', $1, false)", schema);
  } catch (...) {
    pq.finish(connection_);
    throw;
  }
}

Connection::~Connection() { libpq().finish(connection_); }

bool Connection::usable() const { return libpq().status(connection_) == kConnectionOk; }

void Connection::run(const std::string& sql) { checked(libpq().exec(connection_, sql.c_str())); }

const std::string& Connection::prepared(std::string_view sql) {
  if (const auto it = statements_.find(sql); it != statements_.end()) return it->second;
  std::string name = fmt::format("s{}", statements_.size());
  checked(libpq().prepare(connection_, name.c_str(), std::string(sql).c_str(), 0, nullptr));
  return statements_.emplace(sql, std::move(name)).first->second;
}

Rows Connection::run_prepared(std::string_view sql, const std::optional<std::string>* values, size_t count) {
  std::vector<const char*> texts;
  for (size_t i = 0; i < count; ++i) {
    require(!values[i] || values[i]->find('\0') == std::string::npos,
            "the database takes no text with a zero byte");
    texts.push_back(values[i] ? values[i]->c_str() : nullptr);
  }
  return checked(libpq().exec_prepared(connection_, prepared(sql).c_str(), static_cast<int>(count),
                                       texts.data(), nullptr, nullptr, 0));
}

Rows Connection::checked(pg_result* result) {
  const LibPq& pq = libpq();
  if (!result)
    throw Unreachable(ErrorCode::io, fmt::format("{}: the database is away: {}", shown_,
                                                 in_one_line(pq.error_message(connection_))));
  Rows rows(result);
  const int status = pq.result_status(result);
  if (status == kCommandOk || status == kTuplesOk) return rows;
  const char* field = pq.result_field(result, kFieldSqlState);
  const std::string state = field ? field : "", reason = in_one_line(pq.result_error(result));
  if (!usable() || is_away(state))
    throw Unreachable(ErrorCode::io, fmt::format("{}: the database is away: {}", shown_, reason));
  throw Refused(state, fmt::format("{}: the database refuses this: {}{}", shown_, reason, remedy(state)));
}

os::Handle Connection::socket() const { return libpq().socket(connection_); }

bool Connection::read_input() { return libpq().consume_input(connection_) == 1 && usable(); }

std::optional<std::string> Connection::next_message() {
  PgNotify* message = libpq().notifies(connection_);
  if (!message) return std::nullopt;
  std::string text = message->text;
  libpq().free(message);
  return text;
}

Transaction::~Transaction() {
  if (!open_ || !connection_.usable()) return;
  try {
    connection_.run("ROLLBACK");
  } catch (const Error&) {  // whoever unwinds has the first reason, which is the telling one
  }
}

void Transaction::commit() {
  connection_.run("COMMIT");
  open_ = false;
}

}  // namespace tachy::postgres
