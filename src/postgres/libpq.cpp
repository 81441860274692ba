#include "postgres/libpq.h"

#include <string>

#include "base/error.h"

namespace tachy::postgres {
namespace {

struct Found : LibPq {
  std::string why;  // why there is none

  Found() {
    std::string reason;
    library = os::Library::open("libpq.so.5", reason);
    if (!library) why = "libpq.so.5 was not found (Debian's package libpq5 has it): " + reason;
    find("PQconnectdbParams", connect), find("PQfinish", finish), find("PQstatus", status);
    find("PQerrorMessage", error_message), find("PQsocket", socket);
    find("PQconnectionNeedsPassword", needs_password), find("PQserverVersion", server_version);
    find("PQsetNoticeReceiver", set_notices), find("PQexec", exec), find("PQprepare", prepare);
    find("PQexecPrepared", exec_prepared), find("PQresultStatus", result_status);
    find("PQresultErrorMessage", result_error), find("PQresultErrorField", result_field);
    find("PQntuples", rows), find("PQnfields", columns), find("PQgetvalue", value),
        find("PQgetlength", length);
    find("PQgetisnull", is_null), find("PQcmdTuples", changed), find("PQclear", clear);
    find("PQconsumeInput", consume_input), find("PQnotifies", notifies), find("PQfreemem", free);
    find("PQconninfoParse", parse), find("PQconninfoFree", free_options);
  }

 private:
  template <class Function>
  void find(const char* name, Function*& to) {
    if (!why.empty()) return;
    to = reinterpret_cast<Function*>(library.symbol(name));
    if (!to) why = std::string("libpq is too old: it has no ") + name;
  }
};

}  // namespace

const LibPq& libpq() {
  static const Found found;  // is never closed
  check(found.why.empty(), ErrorCode::unsupported, "{}", found.why);
  return found;
}

}  // namespace tachy::postgres
