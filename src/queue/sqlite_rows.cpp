#include "queue/sqlite_rows.h"

#include <algorithm>

#include "queue/policy.h"

namespace tachy::queue {

const std::string kSelectJob =
    "SELECT j.id, j.owner, j.status, j.paused, j.wish, j.priority, j.place, j.model, j.needs, j.kind, "
    "j.planned_seconds, j.created_ms, j.started_ms, j.ended_ms, j.expires_ms, j.progress, j.attempts, "
    "j.worker, "
    "j.bytes, j.error_code, j.error_message, j.facts, j.awaits, t.request, t.settings "
    "FROM jobs j JOIN job_texts t ON t.seq = j.seq ";

JobRow job_row(const Query& query) {
  JobRow row;
  int at = 0;
  const auto integer = [&] { return query.integer(at++); };
  const auto text = [&] { return query.text(at++); };
  row.id = text(), row.owner = text();
  row.status = static_cast<Status>(integer()), row.paused = integer() != 0;
  row.wish = static_cast<Wish>(integer());
  row.priority = static_cast<int>(integer()), row.place = query.real(at++);
  row.model = text(), row.needs = text(), row.kind = text();
  row.planned_seconds = query.real(at++);
  row.created_ms = integer(), row.started_ms = integer(), row.ended_ms = integer(),
  row.expires_ms = integer();
  row.progress = static_cast<int>(integer()), row.attempts = static_cast<int>(integer());
  row.worker = text(), row.bytes = static_cast<uint64_t>(integer());
  row.error.code = text(), row.error.message = text();
  row.facts = text(), row.awaits = text(), row.request = text(), row.settings = text();
  return row;
}

std::optional<JobRow> find_job(Sqlite& database, const std::string& id) {
  static const std::string kFind = kSelectJob + "WHERE j.id = ?";
  Query query = database.query(kFind, id);
  if (!query.next()) return std::nullopt;
  return job_row(query);
}

void insert_job(Sqlite& database, const JobRow& job) {
  database.change(
      "INSERT INTO jobs (id, owner, status, paused, wish, priority, place, model, needs, kind, "
      "planned_seconds, "
      "created_ms, started_ms, ended_ms, expires_ms, progress, attempts, worker, bytes, error_code, "
      "error_message, "
      "facts, awaits) VALUES (?, ?, 0, ?, 0, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, 0, 0, '', 0, '', '', ?, ?)",
      job.id, job.owner, job.paused, job.priority, job.place, job.model, job.needs, job.kind,
      job.planned_seconds, job.created_ms, job.expires_ms, job.facts, job.awaits);
  database.change("INSERT INTO job_texts (seq, request, settings) VALUES (last_insert_rowid(), ?, ?)",
                  job.request, job.settings);
}

void insert_webhook(Sqlite& database, const Webhook& message) {
  database.change("INSERT INTO webhooks (id, job, type, body, attempts, due_ms) VALUES (?, ?, ?, ?, ?, ?)",
                  message.id, message.job, message.type, message.body, message.attempts, message.due_ms);
}

void charge(Sqlite& database, const std::string& owner, double seconds, int64_t now_ms) {
  double before = 0;
  {
    Query query = database.query("SELECT seconds, at_ms FROM shares WHERE owner = ?", owner);
    if (query.next()) before = still_counted(query.real(0), query.integer(1), now_ms);
  }
  database.change("INSERT OR REPLACE INTO shares (owner, seconds, at_ms) VALUES (?, ?, ?)", owner,
                  std::max(0.0, before + seconds), now_ms);
}

void use(Sqlite& database, const std::string& owner, const std::string& model, int64_t jobs,
         const Usage& used, int64_t now_ms) {
  if (jobs == 0 && used.seconds <= 0) return;
  database.change(
      "INSERT INTO usage (owner, day, model, jobs, frames, pixels, seconds) VALUES (?, ?, ?, ?, ?, ?, ?) "
      "ON CONFLICT (owner, day, model) DO UPDATE SET jobs = jobs + excluded.jobs, "
      "frames = frames + excluded.frames, pixels = pixels + excluded.pixels, seconds = seconds + "
      "excluded.seconds",
      owner, day_of_ms(now_ms), model, jobs, used.frames, used.pixels, used.seconds);
}

}  // namespace tachy::queue
