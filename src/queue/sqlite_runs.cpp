// The life of a job: who has it, what is wished of it, and how it ends.
#include <algorithm>

#include "base/error.h"
#include "queue/sqlite_rows.h"
#include "queue/sqlite_table.h"
#include "queue/wishes.h"

namespace tachy::queue {
namespace {

// Ends the row as it is given, with its message; what its owner was charged and has not used is given back.
void write_end(Sqlite& database, const JobRow& row, const std::optional<Webhook>& message, int64_t now_ms) {
  database.change(
      "UPDATE jobs SET status = ?, paused = 0, wish = 0, ended_ms = ?, expires_ms = ?, progress = ?, bytes = "
      "?, "
      "error_code = ?, error_message = ?, facts = ? WHERE id = ?",
      number(row.status), row.ended_ms, row.expires_ms, row.progress, row.bytes, row.error.code,
      row.error.message, row.facts, row.id);
  if (message) insert_webhook(database, *message);
  use(database, row.owner, row.model, row.status == Status::completed ? 1 : 0, row.usage, now_ms);
  if (const double unused = unused_seconds(row); unused > 0) charge(database, row.owner, -unused, now_ms);
}

// Ends a queued job with an error. It is kept for `keep_ms`, 0 for ever.
void write_failed(Sqlite& database, JobRow& row, JobError error, const std::optional<Webhook>& message,
                  int64_t keep_ms, int64_t now_ms) {
  row.status = Status::failed, row.paused = false, row.wish = Wish::none, row.error = std::move(error);
  row.ended_ms = now_ms;
  if (keep_ms > 0) row.expires_ms = now_ms + keep_ms;
  write_end(database, row, message, now_ms);
}

}  // namespace

std::optional<JobRow> SqliteTable::claim(const std::string& id, const std::string& worker) {
  return write(id, [&](Sqlite& database) -> std::optional<JobRow> {
    const int64_t now_ms = this->now_ms();
    const int64_t changed = database.change(
        "UPDATE jobs SET status = 1, worker = ?, attempts = attempts + 1, "
        "started_ms = CASE WHEN started_ms = 0 THEN ? ELSE started_ms END "
        "WHERE id = ? AND status = 0 AND paused = 0 AND awaits = ''",
        worker, now_ms, id);
    if (changed == 0) return std::nullopt;
    std::optional<JobRow> row = find_job(database, id);
    if (row && row->attempts == 1) charge(database, row->owner, row->planned_seconds, now_ms);
    return row;
  });
}

bool SqliteTable::give_back(const std::string& id, const std::string& worker, bool paused) {
  return write(id, [&](Sqlite& database) {
    return database.change(
               "UPDATE jobs SET status = 0, paused = (? OR wish = ?), wish = 0 "
               "WHERE id = ? AND status = 1 AND worker = ? AND wish NOT IN (?, ?)",
               paused, number(Wish::pause), id, worker, number(Wish::cancel),
               number(Wish::cancel_keeping_frames)) > 0;
  });
}

void SqliteTable::progress(const std::string& id, const std::string& worker, int percent) {
  percent = std::clamp(percent, 0, 100);
  pool_.write([&](Sqlite& database) {  // the order of those that wait stays
    database.change(
        "UPDATE jobs SET progress = ? WHERE id = ? AND status = 1 AND worker = ? AND progress < ?", percent,
        id, worker, percent);
  });
  rows_.drop(id);
}

bool SqliteTable::end(const JobRow& ended, const std::string& worker, const std::optional<Webhook>& message) {
  require(ended.status == Status::completed || ended.status == Status::failed,
          "a job ends as completed or failed, not as {}", to_string(ended.status));
  return write(ended.id, [&](Sqlite& database) {
    std::optional<JobRow> row = find_job(database, ended.id);
    if (!row || row->status != Status::in_progress || row->worker != worker) return false;
    const int64_t now_ms = this->now_ms();
    row->status = ended.status, row->error = ended.error, row->facts = ended.facts, row->bytes = ended.bytes;
    row->ended_ms = ended.ended_ms ? ended.ended_ms : now_ms;
    row->expires_ms = ended.expires_ms, row->usage = ended.usage;
    row->progress = ended.status == Status::completed ? 100 : std::max(row->progress, ended.progress);
    write_end(database, *row, message, now_ms);
    return true;
  });
}

std::optional<JobRow> SqliteTable::wish(const std::string& id, Wish wish,
                                        const std::optional<Webhook>& message) {
  return write(id, [&](Sqlite& database) -> std::optional<JobRow> {
    std::optional<JobRow> row = find_job(database, id);
    if (!row || row->status == Status::completed || row->status == Status::failed) return row;
    if (row->status == Status::in_progress) {
      row->wish = joined(row->wish, wish);
      database.change("UPDATE jobs SET wish = ? WHERE id = ?", number(row->wish), id);
    } else if (wish == Wish::cancel_keeping_frames && row->wish == wish) {
      return row;  // it waits after a kill to be finished with its frames
    } else if (is_cancel(wish)) {
      write_failed(database, *row, cancelled_while_queued(*row), message, options_.keep_ms, now_ms());
    } else {
      row->paused = wish == Wish::pause;
      database.change("UPDATE jobs SET paused = ? WHERE id = ?", row->paused, id);
    }
    return row;
  });
}

std::optional<JobRow> SqliteTable::fail_queued(const std::string& id, const JobError& error,
                                               const std::optional<Webhook>& message) {
  return write(id, [&](Sqlite& database) -> std::optional<JobRow> {
    std::optional<JobRow> row = find_job(database, id);
    if (!row || row->status != Status::queued) return std::nullopt;
    write_failed(database, *row, error, message, options_.keep_ms, now_ms());
    return row;
  });
}

std::optional<JobRow> SqliteTable::set_paused(const std::string& id, bool paused) {
  return write(id, [&](Sqlite& database) -> std::optional<JobRow> {
    if (database.change("UPDATE jobs SET paused = ? WHERE id = ? AND status = 0", paused, id) == 0)
      return std::nullopt;
    return find_job(database, id);
  });
}

std::optional<std::vector<HeldJob>> SqliteTable::heartbeat(const std::string& worker) {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query("SELECT id, wish FROM jobs WHERE status = 1 AND worker = ?", worker);
    std::vector<HeldJob> held;
    while (query.next()) held.push_back({query.text(0), static_cast<Wish>(query.integer(1))});
    return held;
  });
}

std::vector<JobRow> SqliteTable::recover(const std::string& worker) {
  static const std::string kHad = kSelectJob + "WHERE j.status = 1 AND j.worker = ? ORDER BY j.seq";
  return write("", [&](Sqlite& database) {
    std::vector<JobRow> rows;
    {
      Query query = database.query(kHad, worker);
      while (query.next()) rows.push_back(job_row(query));
    }
    for (JobRow& row : rows) {
      row.status = Status::queued, row.paused = row.wish == Wish::pause;
      if (!is_cancel(row.wish)) row.wish = Wish::none;
      database.change("UPDATE jobs SET status = 0, paused = ?, wish = ? WHERE id = ?", row.paused,
                      number(row.wish), row.id);
    }
    return rows;
  });
}

}  // namespace tachy::queue
