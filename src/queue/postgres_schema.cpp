// A version that was released never changes: what a later one needs is a step of its own at the end of
// kPostgresSteps. A step also says which is the oldest version that works with the tables after it. Steps
// that only add tables, or columns with defaults, leave that number as it was, so that servers of both
// versions run side by side while hosts are upgraded one after another.
//
// The tables are those of SQLite (sqlite_schema.cpp), with leases for workers. `status` and `wish` are the
// numbers of the enumerations in job_row.h. All lie in a schema of their own, beside whatever else the
// database has.
#include "queue/postgres_schema.h"

#include <iterator>

#include "base/error.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

// A part of each page of jobs is left free, so that a row whose progress changes stays in its page, and no
// index need know of it.
constexpr const char* kJobs = R"(
CREATE FUNCTION clock_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT coalesce(given, (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint) $$;
CREATE TABLE jobs (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  owner text NOT NULL,
  status smallint NOT NULL DEFAULT 0,
  paused boolean NOT NULL,
  wish smallint NOT NULL DEFAULT 0,
  priority integer NOT NULL,
  place double precision NOT NULL,
  model text NOT NULL,
  needs text NOT NULL,
  kind text NOT NULL,
  planned_seconds double precision NOT NULL,
  created_ms bigint NOT NULL,
  started_ms bigint NOT NULL DEFAULT 0,
  ended_ms bigint NOT NULL DEFAULT 0,
  expires_ms bigint NOT NULL,
  progress smallint NOT NULL DEFAULT 0,
  attempts integer NOT NULL DEFAULT 0,
  worker text NOT NULL DEFAULT '',
  bytes bigint NOT NULL DEFAULT 0,
  error_code text NOT NULL DEFAULT '',
  error_message text NOT NULL DEFAULT '',
  facts text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX jobs_of_owner ON jobs (owner, seq);
CREATE INDEX jobs_waiting_of_owner ON jobs (owner) WHERE status = 0;
CREATE INDEX jobs_in_line ON jobs (place) WHERE status < 2;
CREATE INDEX jobs_of_worker ON jobs (worker) WHERE status = 1;
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE status >= 2;
CREATE INDEX jobs_expiring ON jobs (expires_ms) WHERE status >= 2 AND expires_ms > 0;
CREATE TABLE job_texts (
  seq bigint PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
  request text NOT NULL,
  settings text NOT NULL
);
CREATE TABLE idempotency (
  owner text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL,
  seq bigint NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
  created_ms bigint NOT NULL,
  PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_of_job ON idempotency (seq);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);
CREATE TABLE webhooks (
  id text PRIMARY KEY,
  job text NOT NULL,
  type text NOT NULL,
  body text NOT NULL,
  attempts integer NOT NULL,
  due_ms bigint NOT NULL
);
CREATE INDEX webhooks_due ON webhooks (due_ms);
CREATE TABLE presets (
  owner text NOT NULL,
  name text NOT NULL COLLATE "C",
  fields text NOT NULL,
  PRIMARY KEY (owner, name)
);
CREATE TABLE shares (
  owner text PRIMARY KEY,
  seconds double precision NOT NULL,
  at_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE workers (
  name text PRIMARY KEY,
  until_ms bigint NOT NULL
) WITH (fillfactor = 50);
)";

// The hosts that share the queue, where a job's files are and why its worker took it, and what keys have
// used.
constexpr const char* kHosts = R"(
CREATE TABLE hosts (
  name text PRIMARY KEY,
  address text NOT NULL,
  files text NOT NULL,
  about text NOT NULL,
  seen_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE usage (
  owner text NOT NULL,
  day bigint NOT NULL,
  model text NOT NULL,
  jobs bigint NOT NULL,
  frames bigint NOT NULL,
  pixels double precision NOT NULL,
  seconds double precision NOT NULL,
  PRIMARY KEY (owner, day, model)
) WITH (fillfactor = 50);
CREATE INDEX usage_by_day ON usage (day);
ALTER TABLE jobs ADD COLUMN files text NOT NULL DEFAULT '', ADD COLUMN why text NOT NULL DEFAULT '';
)";

// The jobs that a job waits for, as ids with spaces between them. An older program would begin such a job too early.
constexpr const char* kAwaits = "ALTER TABLE jobs ADD COLUMN awaits text NOT NULL DEFAULT ''";

// The table itself refuses such a claim, so that programs of the versions before go on: to them somebody else
// seems to have taken the job.
constexpr const char* kGuard = R"(
CREATE FUNCTION leave_as_it_is() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER no_early_claim BEFORE UPDATE OF status ON jobs FOR EACH ROW
  WHEN (OLD.status = 0 AND NEW.status = 1 AND NEW.awaits <> '') EXECUTE FUNCTION leave_as_it_is();
)";

struct Step {
  const char* sql;
  int works_with;  // the oldest version that works with the tables after this step
};
constexpr Step kPostgresSteps[] = {{kJobs, 1}, {kHosts, 1}, {kAwaits, 3}, {kGuard, 1}};
constexpr int kNewestPostgres = static_cast<int>(std::size(kPostgresSteps));

// Makes the schema if it is missing. A user without the right to make it can still use one that an
// administrator has made.
void make_schema(Connection& connection, const std::string& name) {
  const Rows there = connection.query(
      "SELECT has_schema_privilege(nspname, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = $1", name);
  if (!there.empty()) {
    check(there.truth(0, 0), ErrorCode::io,
          "permission denied for the schema {} of the database; an administrator gives it by: GRANT USAGE, "
          "CREATE ON "
          "SCHEMA {} TO the_user",
          name, name);
    return;
  }
  try {
    connection.run("CREATE SCHEMA " + name);
  } catch (const postgres::Refused& error) {
    if (error.state != "42501") throw;
    fail(ErrorCode::io,
         "{}; an administrator of the database makes the schema by: CREATE SCHEMA {} AUTHORIZATION the_user",
         error.message(), name);
  }
}

int version_of(Connection& connection, const std::string& schema) {
  if (connection.query("SELECT to_regclass('schema_version')").is_null(0, 0))
    connection.run("CREATE TABLE schema_version (version integer NOT NULL, works_with integer NOT NULL)");
  const Rows rows = connection.query("SELECT version, works_with FROM schema_version");
  if (rows.empty()) return 0;
  const int64_t version = rows.integer(0, 0), works_with = rows.integer(0, 1);
  check(works_with <= kNewestPostgres, ErrorCode::unsupported,
        "the database was written by a newer version of this program (its tables in the schema {} have "
        "version {}, "
        "for programs from {} on, and this program knows up to {}); use the newer one, or another database",
        schema, version, works_with, kNewestPostgres);
  return static_cast<int>(version);
}

}  // namespace

int newest_postgres_schema() { return kNewestPostgres; }

void migrate(postgres::Pool& pool, int version) {
  pool.change([&](Connection& connection, bool) {
    connection.query("SELECT pg_advisory_xact_lock(1415668584, hashtext($1))", pool.schema());
    make_schema(connection, pool.schema());
    const int begin = version_of(connection, pool.schema());
    if (begin >= version) return;
    for (int step = begin; step < version; ++step) connection.run(kPostgresSteps[step].sql);
    connection.run("DELETE FROM schema_version");
    connection.query("INSERT INTO schema_version (version, works_with) VALUES ($1, $2)", version,
                     kPostgresSteps[version - 1].works_with);
  });
}

}  // namespace tachy::queue
