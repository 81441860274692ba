// New jobs, changes to those that wait, and removal. Whoever gives out places holds a lock (lock_line), so
// that limits and orders are those of one table.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "queue/postgres_rows.h"
#include "queue/postgres_table.h"
#include "queue/wishes.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

// Waits for others who give out places, keeps them out until the transaction ends, and returns the time.
int64_t lock_line(Connection& connection, std::optional<int64_t> at) {
  connection.query("SELECT pg_advisory_xact_lock(1415668585, hashtext(current_schema()))");
  return connection.query("SELECT clock_ms($1)", at).integer(0, 0);
}

// Returns the earlier job of this owner and key, or nothing. Keys that have become too old are forgotten.
std::optional<Inserted> earlier_insert(Connection& connection, const std::string& owner,
                                       const std::string& key, const std::string& fingerprint,
                                       int64_t now_ms) {
  connection.query("DELETE FROM idempotency WHERE created_ms <= $1", now_ms - kIdempotencyMs);
  const Rows keys =
      connection.query("SELECT seq, fingerprint FROM idempotency WHERE owner = $1 AND key = $2", owner, key);
  if (keys.empty()) return std::nullopt;
  const Rows rows = connection.query(TACHY_SELECT_JOB "WHERE j.seq = $1", keys.integer(0, 0));
  if (rows.empty()) return std::nullopt;
  return Inserted{keys.text(0, 1) == fingerprint ? Inserted::How::repeated : Inserted::How::mismatch,
                  job_row(rows, 0)};
}

double last_place(Connection& connection) {
  return connection.query("SELECT coalesce(max(place), 0) FROM jobs WHERE status < 2").real(0, 0);
}

// Numbers the places of the jobs of one priority anew, in their order and beyond all others: between two of
// them there was no number left.
void spread_places(Connection& connection, int priority) {
  connection.query(
      "UPDATE jobs SET place = $2::float8 + line.number FROM (SELECT seq, row_number() OVER (ORDER BY place, "
      "seq) AS "
      "number FROM jobs WHERE status = 0 AND priority = $1) AS line WHERE jobs.seq = line.seq AND "
      "jobs.status = 0",
      priority, std::floor(last_place(connection)));
}

// Returns the place of the job that waits next in front of this place, or nothing. The job that is moved does
// not count, or it would be in its own way.
std::optional<double> place_below(Connection& connection, int priority, double place,
                                  const std::string& moved) {
  const Rows rows = connection.query(
      "SELECT place FROM jobs WHERE status = 0 AND priority = $1 AND place < $2 AND id <> $3 "
      "ORDER BY place DESC LIMIT 1",
      priority, place, moved);
  return rows.empty() ? std::nullopt : std::optional(rows.real(0, 0));
}

// Returns a place in front of the job `before`, which waits with this priority.
double place_before(Connection& connection, const JobRow& moved, const std::string& before, int priority) {
  for (int tries = 0;; ++tries) {
    const std::optional<JobRow> next = find_job(connection, before);
    check(next && next->status == Status::queued, ErrorCode::not_found, "`before`: no video {} is waiting",
          before);
    require(next->priority == priority, "`before`: {} has the priority {}, and this video {}", before,
            next->priority, priority);
    if (next->id == moved.id) return moved.place;
    const std::optional<double> lower = place_below(connection, priority, next->place, moved.id);
    if (!lower) return next->place - 1;
    const double middle = *lower + (next->place - *lower) / 2;
    if (middle > *lower && middle < next->place) return middle;
    check(tries == 0, ErrorCode::internal, "the queue has no place between two jobs");
    spread_places(connection, priority);
  }
}

}  // namespace

Inserted PostgresTable::insert(const JobRow& job, const std::string& idempotency,
                               const std::string& fingerprint, int64_t most_queued, int64_t most_of_owner) {
  const Bump bump{*this, job.id};
  return pool_.change([&](Connection& connection, bool again) -> Inserted {
    const int64_t now_ms = lock_line(connection, at());
    if (again)
      if (auto made = find_job(connection, job.id)) return {Inserted::How::made, *std::move(made)};
    if (!idempotency.empty())
      if (auto found = earlier_insert(connection, job.owner, idempotency, fingerprint, now_ms)) return *found;
    const auto waiting = [&](const char* sql, const auto&... values) {
      return connection.query(sql, values...).integer(0, 0);
    };
    if (most_of_owner > 0 &&
        waiting("SELECT count(*) FROM jobs WHERE status = 0 AND owner = $1", job.owner) >= most_of_owner)
      return {Inserted::How::owner_full, {}};
    if (most_queued > 0 && waiting("SELECT count(*) FROM jobs WHERE status = 0") >= most_queued)
      return {Inserted::How::queue_full, {}};
    JobRow row = job;
    row.place = std::floor(last_place(connection)) + 1;
    if (row.created_ms == 0) row.created_ms = now_ms;
    insert_job(connection, row);
    if (!idempotency.empty())
      connection.query(
          "INSERT INTO idempotency (owner, key, fingerprint, seq, created_ms) "
          "SELECT $1, $2, $3, seq, $4 FROM jobs WHERE id = $5",
          row.owner, idempotency, fingerprint, now_ms, row.id);
    tell(connection);
    return {Inserted::How::made, find_job(connection, row.id).value()};
  });
}

std::optional<JobRow> PostgresTable::change(const std::string& id, const Change& change) {
  const Bump bump{*this, id};
  return pool_.change([&](Connection& connection, bool again) -> std::optional<JobRow> {
    if (change.before) lock_line(connection, at());
    // A statement that waits for a row would still read the row's texts as they were when it began.
    connection.query("SELECT FROM jobs WHERE id = $1 FOR UPDATE", id);
    std::optional<JobRow> row = find_job(connection, id);
    if (!row || row->status != Status::queued) return std::nullopt;
    const bool made = again && change.request && row->request == *change.request;
    if (change.expect && !made) change.expect(*row);
    row->model = change.model.value_or(row->model), row->needs = change.needs.value_or(row->needs);
    row->facts = change.facts.value_or(row->facts), row->priority = change.priority.value_or(row->priority);
    row->planned_seconds = change.planned_seconds.value_or(row->planned_seconds);
    row->awaits = change.awaits.value_or(row->awaits);
    if (change.before)
      row->place = change.before->empty() ? std::floor(last_place(connection)) + 1
                                          : place_before(connection, *row, *change.before, row->priority);
    connection.query(
        "UPDATE jobs SET model = $1, needs = $2, facts = $3, priority = $4, planned_seconds = $5, place = "
        "$6, "
        "awaits = $7 WHERE id = $8",
        row->model, row->needs, row->facts, row->priority, row->planned_seconds, row->place, row->awaits, id);
    if (change.request || change.settings) {
      row->request = change.request.value_or(row->request);
      row->settings = change.settings.value_or(row->settings);
      connection.query(
          "UPDATE job_texts SET request = $1, settings = $2 WHERE seq = (SELECT seq FROM jobs WHERE id = $3)",
          row->request, row->settings, id);
    }
    tell(connection);
    return row;
  });
}

bool PostgresTable::remove(const std::string& id) {
  const Bump bump{*this, id};
  return pool_.run([&](Connection& connection, bool again) {
    return connection.change("DELETE FROM jobs WHERE id = $1", id) > 0 || again;
  });
}

}  // namespace tachy::queue
