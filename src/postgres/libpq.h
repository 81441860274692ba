// The functions of libpq, PostgreSQL's library for clients, looked up when they are first needed. They are
// declared here by their published signatures, which have been the same since version 9 of PostgreSQL.
#pragma once

#include "base/os/library.h"

struct pg_conn;
struct pg_result;

namespace tachy::postgres {

// A message of another session, as libpq hands it out.
struct PgNotify {
  char* channel;
  int sender;  // its process at the server
  char* text;
  PgNotify* next;  // libpq's own
};

// An option of an address, as libpq reads it.
struct PgOption {
  char* keyword;
  char* variable;
  char* compiled;
  char* value;  // null: not given
  char* label;
  char* display;
  int size;
};

// The values of libpq's enumerations that are asked for.
inline constexpr int kConnectionOk = 0;
inline constexpr int kCommandOk = 1, kTuplesOk = 2;
inline constexpr int kFieldSqlState = 'C';

struct LibPq {
  os::Library library;
  pg_conn* (*connect)(const char* const* keywords, const char* const* values, int expand_dbname) = nullptr;
  void (*finish)(pg_conn*) = nullptr;
  int (*status)(const pg_conn*) = nullptr;
  char* (*error_message)(const pg_conn*) = nullptr;
  int (*socket)(const pg_conn*) = nullptr;
  int (*needs_password)(const pg_conn*) = nullptr;
  int (*server_version)(const pg_conn*) = nullptr;
  void* (*set_notices)(pg_conn*, void (*receiver)(void*, const pg_result*), void*) = nullptr;
  pg_result* (*exec)(pg_conn*, const char* sql) = nullptr;
  pg_result* (*prepare)(pg_conn*, const char* name, const char* sql, int count,
                        const unsigned* types) = nullptr;
  pg_result* (*exec_prepared)(pg_conn*, const char* name, int count, const char* const* values,
                              const int* lengths, const int* formats, int result_format) = nullptr;
  int (*result_status)(const pg_result*) = nullptr;
  char* (*result_error)(const pg_result*) = nullptr;
  char* (*result_field)(const pg_result*, int code) = nullptr;
  int (*rows)(const pg_result*) = nullptr;
  int (*columns)(const pg_result*) = nullptr;
  char* (*value)(const pg_result*, int row, int column) = nullptr;
  int (*length)(const pg_result*, int row, int column) = nullptr;
  int (*is_null)(const pg_result*, int row, int column) = nullptr;
  char* (*changed)(pg_result*) = nullptr;
  void (*clear)(pg_result*) = nullptr;
  int (*consume_input)(pg_conn*) = nullptr;
  PgNotify* (*notifies)(pg_conn*) = nullptr;
  void (*free)(void*) = nullptr;
  PgOption* (*parse)(const char* address, char** message) = nullptr;
  void (*free_options)(PgOption*) = nullptr;
};

// Throws unsupported, with what was tried, if libpq is not here.
const LibPq& libpq();

}  // namespace tachy::postgres
