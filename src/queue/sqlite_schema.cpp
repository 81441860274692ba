// A version that was released never changes: what a later one needs is a step of its own at the end of
// kSteps, and a copy of the older version, as text, for the test of migrations
// (tests/unit/queue/version_1.sql).
//
// Jobs are numbered by their creation (seq), which pages of a list go by. The long texts of a job lie in a
// table of their own: a row of progress is then a hundred bytes, and a pass over all jobs reads little.
// `status` and `wish` are the numbers of the enumerations in job_row.h.
#include "queue/sqlite_schema.h"

#include <iterator>

#include "base/error.h"

namespace tachy::queue {
namespace {

constexpr int64_t kOurs = 0x54616368;  // "Tach", in the file's header

constexpr const char* kVersion1 = R"(
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  status INTEGER NOT NULL,
  paused INTEGER NOT NULL,
  wish INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  place REAL NOT NULL,
  model TEXT NOT NULL,
  needs TEXT NOT NULL,
  kind TEXT NOT NULL,
  planned_seconds REAL NOT NULL,
  created_ms INTEGER NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  progress INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  worker TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  facts TEXT NOT NULL
);
CREATE INDEX jobs_of_owner ON jobs (owner, seq);
CREATE INDEX jobs_by_status ON jobs (status, owner);
CREATE INDEX jobs_in_line ON jobs (place) WHERE status < 2;
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE status >= 2;
CREATE TABLE job_texts (
  seq INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
  request TEXT NOT NULL,
  settings TEXT NOT NULL
);
CREATE TABLE idempotency (
  owner TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_of_job ON idempotency (seq);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  job TEXT NOT NULL,
  type TEXT NOT NULL,
  body TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  due_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_due ON webhooks (due_ms);
CREATE TABLE presets (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  fields TEXT NOT NULL,
  PRIMARY KEY (owner, name)
) WITHOUT ROWID;
)";

// The seconds that each owner has used lately, for fairness (policy.h).
constexpr const char* kVersion2 = R"(
CREATE TABLE shares (
  owner TEXT PRIMARY KEY,
  seconds REAL NOT NULL,
  at_ms INTEGER NOT NULL
) WITHOUT ROWID;
)";

// Everything that keys have used, for those who share the costs.
constexpr const char* kVersion3 = R"(
CREATE TABLE usage (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  model TEXT NOT NULL,
  jobs INTEGER NOT NULL,
  frames INTEGER NOT NULL,
  pixels REAL NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (owner, day, model)
) WITHOUT ROWID;
)";

// The jobs that a job waits for, as ids with spaces between them.
constexpr const char* kVersion4 = "ALTER TABLE jobs ADD COLUMN awaits TEXT NOT NULL DEFAULT ''";

constexpr const char* kSteps[] = {kVersion1, kVersion2, kVersion3, kVersion4};
constexpr int kNewest = static_cast<int>(std::size(kSteps));

int64_t number(Sqlite& database, const char* pragma) {
  Query query = database.query(pragma);
  return query.next() ? query.integer(0) : 0;
}

int version_of(Sqlite& database) { return static_cast<int>(number(database, "PRAGMA user_version")); }

}  // namespace

int newest_schema() { return kNewest; }

void check_known(Sqlite& database) {
  const int64_t mark = number(database, "PRAGMA application_id");
  const bool empty = number(database, "SELECT count(*) FROM sqlite_schema") == 0;
  check(mark == kOurs || (mark == 0 && empty), ErrorCode::io,
        "{}: is a database of another program; move it away, or choose another folder",
        database.file().string());
  const int version = version_of(database);
  check(version <= kNewest, ErrorCode::unsupported,
        "{}: was written by a newer version of this program (its tables have version {}, and this program "
        "knows "
        "up to {}); use the newer one, or another folder",
        database.file().string(), version, kNewest);
}

void migrate(Sqlite& database, int version) {
  check_known(database);
  while (version_of(database) < version) {
    Transaction change(database);
    const int now = version_of(database);  // another process may have been faster
    check_known(database);
    if (now < version) {
      database.run(kSteps[now]);
      database.run(
          fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kOurs, now + 1).c_str());
    }
    change.commit();
  }
}

}  // namespace tachy::queue
