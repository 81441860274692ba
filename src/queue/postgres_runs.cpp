// The life of a job: who has it, what is wished of it, and how it ends.
#include <algorithm>

#include "base/error.h"
#include "queue/policy.h"
#include "queue/postgres_rows.h"
#include "queue/postgres_table.h"
#include "queue/postgres_wakes.h"
#include "queue/wishes.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

// Ends the row as it is given, with its message; what its owner was charged and has not used is given back.
void write_end(Connection& connection, const JobRow& row, const std::optional<Webhook>& message,
               std::optional<int64_t> at) {
  connection.query(
      "UPDATE jobs SET status = $1, paused = false, wish = 0, ended_ms = $2, expires_ms = $3, progress = $4, "
      "bytes = $5, error_code = $6, error_message = $7, facts = $8 WHERE id = $9",
      number(row.status), row.ended_ms, row.expires_ms, row.progress, row.bytes, row.error.code,
      row.error.message, row.facts, row.id);
  if (message) insert_webhook(connection, *message);
  use(connection, row.owner, row.model, row.status == Status::completed ? 1 : 0, row.usage, at);
  if (const double unused = unused_seconds(row); unused > 0) charge(connection, row.owner, -unused, at);
}

// Ends a queued job with an error. It is kept for `keep_ms`, 0 for ever.
void write_failed(Connection& connection, JobRow& row, JobError error, const std::optional<Webhook>& message,
                  int64_t keep_ms, int64_t now_ms, std::optional<int64_t> at) {
  row.status = Status::failed, row.paused = false, row.wish = Wish::none, row.error = std::move(error);
  row.ended_ms = now_ms;
  if (keep_ms > 0) row.expires_ms = now_ms + keep_ms;
  write_end(connection, row, message, at);
}

// The claim, and the charge for the first one, are one statement. A row that somebody else has locked is
// passed over, so that nobody waits for a job that is as good as taken.
constexpr const char* kClaim =
    "WITH taken AS (UPDATE jobs SET status = 1, worker = $2, attempts = attempts + 1, "
    "started_ms = CASE WHEN started_ms = 0 THEN clock_ms($3) ELSE started_ms END "
    "WHERE seq = (SELECT seq FROM jobs WHERE id = $1 AND status = 0 AND NOT paused AND awaits = '' FOR "
    "UPDATE SKIP LOCKED) "
    "RETURNING *), charged AS (INSERT INTO shares AS s (owner, seconds, at_ms) "
    "SELECT owner, planned_seconds, clock_ms($3) FROM taken WHERE attempts = 1 "
    "ON CONFLICT (owner) DO UPDATE SET at_ms = excluded.at_ms, seconds = excluded.seconds + s.seconds * "
    "power(0.5, greatest(0, excluded.at_ms - s.at_ms) / 1000.0::float8 / $4)) "
    "SELECT " TACHY_JOB_COLUMNS "FROM taken j JOIN job_texts t ON t.seq = j.seq";

}  // namespace

std::optional<JobRow> PostgresTable::claim(const std::string& id, const std::string& worker) {
  const Bump bump{*this, id};
  return pool_.run([&](Connection& connection, bool again) -> std::optional<JobRow> {
    const Rows taken = connection.query(kClaim, id, worker, at(), kHalfLifeSeconds);
    if (!taken.empty()) return job_row(taken, 0);
    if (!again) return std::nullopt;
    std::optional<JobRow> row = find_job(connection, id);
    return row && row->status == Status::in_progress && row->worker == worker ? row : std::nullopt;
  });
}

bool PostgresTable::give_back(const std::string& id, const std::string& worker, bool paused) {
  const Bump bump{*this, id};
  return pool_.run([&](Connection& connection, bool) {
    return !connection
                .query(
                    "WITH given AS (UPDATE jobs SET status = 0, paused = ($3 OR wish = $4), wish = 0 WHERE "
                    "id = $1 "
                    "AND status = 1 AND worker = $2 AND wish NOT IN ($5, $6) RETURNING id) "
                    "SELECT pg_notify($7, $8) FROM given",
                    id, worker, paused, number(Wish::pause), number(Wish::cancel),
                    number(Wish::cancel_keeping_frames), channel_, wakes_->message_for(""))
                .empty();
  });
}

void PostgresTable::progress(const std::string& id, const std::string& worker, int percent) {
  percent = std::clamp(percent, 0, 100);
  pool_.run([&](Connection& connection, bool) {
    connection.query(
        "UPDATE jobs SET progress = $3 WHERE id = $1 AND status = 1 AND worker = $2 AND progress < $3", id,
        worker, percent);
  });
  rows_.drop(id);
}

bool PostgresTable::end(const JobRow& ended, const std::string& worker,
                        const std::optional<Webhook>& message) {
  require(ended.status == Status::completed || ended.status == Status::failed,
          "a job ends as completed or failed, not as {}", to_string(ended.status));
  const Bump bump{*this, ended.id};
  return pool_.change([&](Connection& connection, bool again) {
    std::optional<JobRow> row = find_and_lock(connection, ended.id);
    if (!row || row->worker != worker) return false;
    if (row->status != Status::in_progress) return again && row->status == ended.status;
    row->status = ended.status, row->error = ended.error, row->facts = ended.facts, row->bytes = ended.bytes;
    row->ended_ms = ended.ended_ms ? ended.ended_ms : now_ms();
    row->expires_ms = ended.expires_ms, row->usage = ended.usage;
    row->progress = ended.status == Status::completed ? 100 : std::max(row->progress, ended.progress);
    write_end(connection, *row, message, at());
    return true;
  });
}

std::optional<JobRow> PostgresTable::wish(const std::string& id, Wish wish,
                                          const std::optional<Webhook>& message) {
  const Bump bump{*this, id};
  return pool_.change([&](Connection& connection, bool) -> std::optional<JobRow> {
    std::optional<JobRow> row = find_and_lock(connection, id);
    if (!row || row->status == Status::completed || row->status == Status::failed) return row;
    if (row->status == Status::in_progress) {
      row->wish = joined(row->wish, wish);
      connection.query("UPDATE jobs SET wish = $1 WHERE id = $2", number(row->wish), id);
      tell(connection, row->worker);
    } else if (wish == Wish::cancel_keeping_frames && row->wish == wish) {
      return row;  // it waits after a kill to be finished with its frames
    } else if (is_cancel(wish)) {
      write_failed(connection, *row, cancelled_while_queued(*row), message, options_.keep_ms, now_ms(), at());
    } else {
      row->paused = wish == Wish::pause;
      connection.query("UPDATE jobs SET paused = $1 WHERE id = $2", row->paused, id);
      if (!row->paused) tell(connection);
    }
    return row;
  });
}

std::optional<JobRow> PostgresTable::fail_queued(const std::string& id, const JobError& error,
                                                 const std::optional<Webhook>& message) {
  const Bump bump{*this, id};
  return pool_.change([&](Connection& connection, bool again) -> std::optional<JobRow> {
    std::optional<JobRow> row = find_and_lock(connection, id);
    if (row && again && row->status == Status::failed && row->error.message == error.message) return row;
    if (!row || row->status != Status::queued) return std::nullopt;
    write_failed(connection, *row, error, message, options_.keep_ms, now_ms(), at());
    tell(connection);  // others may wait for it
    return row;
  });
}

std::optional<JobRow> PostgresTable::set_paused(const std::string& id, bool paused) {
  const Bump bump{*this, id};
  return pool_.change([&](Connection& connection, bool) -> std::optional<JobRow> {
    if (connection.change("UPDATE jobs SET paused = $1 WHERE id = $2 AND status = 0", paused, id) == 0)
      return std::nullopt;
    if (!paused) tell(connection);
    return find_job(connection, id);
  });
}

}  // namespace tachy::queue
