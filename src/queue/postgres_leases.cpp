// The leases of workers, and the jobs of those that lost theirs. A lease is a row of `workers`: while it is
// there, the jobs are the worker's, however late it is. Whoever finds it ended removes it and puts the jobs
// back, in one change; a heartbeat that comes later finds no row, and the worker knows.
#include <algorithm>

#include "queue/postgres_rows.h"
#include "queue/postgres_table.h"
#include "queue/postgres_wakes.h"
#include "queue/wishes.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

int64_t milliseconds(double seconds) { return static_cast<int64_t>(seconds * 1000); }

}  // namespace

void PostgresTable::enlist(const std::string& worker) {
  wakes_->add_worker(worker);
  pool_.run([&](Connection& connection, bool again) {
    const Rows rows = connection.query(
        "INSERT INTO workers AS w (name, until_ms) VALUES ($1, clock_ms($2) + $3) "
        "ON CONFLICT (name) DO UPDATE SET until_ms = excluded.until_ms WHERE w.until_ms < clock_ms($2) OR "
        "$4::boolean "
        "RETURNING name",
        worker, at(), milliseconds(options_.lease_seconds), again);
    check(!rows.empty(), ErrorCode::io, "another worker with the name {} is alive; give each its own",
          worker);
  });
}

// A heartbeat that a crash of the database loses is made good by the patience of recover_lost(), so that
// nobody waits for the disk.
std::optional<std::vector<HeldJob>> PostgresTable::heartbeat(const std::string& worker) {
  return pool_.change([&](Connection& connection, bool) -> std::optional<std::vector<HeldJob>> {
    connection.run("SET LOCAL synchronous_commit = off");
    if (connection.change("UPDATE workers SET until_ms = clock_ms($2) + $3 WHERE name = $1", worker, at(),
                          milliseconds(options_.lease_seconds)) == 0)
      return std::nullopt;
    const Rows rows = connection.query("SELECT id, wish FROM jobs WHERE status = 1 AND worker = $1", worker);
    std::vector<HeldJob> held;
    for (int i = 0; i < rows.count(); ++i)
      held.push_back({rows.text(i, 0), static_cast<Wish>(rows.integer(i, 1))});
    return held;
  });
}

std::vector<JobRow> PostgresTable::put_back(Connection& connection, const std::string& worker) {
  connection.query("DELETE FROM workers WHERE name = $1", worker);
  std::vector<JobRow> rows = job_rows(connection.query(
      TACHY_SELECT_JOB "WHERE j.status = 1 AND j.worker = $1 ORDER BY j.seq FOR UPDATE OF j", worker));
  for (JobRow& row : rows) {
    row.status = Status::queued, row.paused = row.wish == Wish::pause;
    if (!is_cancel(row.wish)) row.wish = Wish::none;
    connection.query("UPDATE jobs SET status = 0, paused = $1, wish = $2 WHERE id = $3", row.paused,
                     number(row.wish), row.id);
  }
  if (!rows.empty()) tell(connection);
  return rows;
}

std::vector<JobRow> PostgresTable::recover(const std::string& worker) {
  std::vector<JobRow> rows =
      pool_.change([&](Connection& connection, bool) { return put_back(connection, worker); });
  ++version_, rows_.drop_all();
  return rows;
}

// While the database was away nobody could renew a lease, so all of them last a lease's time from its start
// on.
std::vector<JobRow> PostgresTable::recover_lost() {
  bool any = false;
  std::vector<JobRow> rows = pool_.change([&](Connection& connection, bool) {
    const Rows lost = connection.query(
        "SELECT name FROM workers WHERE until_ms < clock_ms($1) AND ($1 IS NOT NULL OR "
        "pg_postmaster_start_time() + make_interval(secs => $2) < clock_timestamp()) ORDER BY name FOR "
        "UPDATE SKIP LOCKED",
        at(), options_.lease_seconds);
    hosts_ = std::max<int64_t>(connection.query("SELECT count(*) FROM workers").integer(0, 0), 1);
    std::vector<JobRow> found;
    for (int i = 0; i < lost.count(); ++i)
      for (JobRow& row : put_back(connection, lost.text(i, 0))) found.push_back(std::move(row));
    any = lost.count() > 0;
    return found;
  });
  if (any) ++version_, rows_.drop_all();
  return rows;
}

}  // namespace tachy::queue
