#include "queue/postgres_rows.h"

#include "queue/policy.h"

namespace tachy::queue {

JobRow job_row(const postgres::Rows& rows, int at) {
  JobRow row;
  int column = 0;
  const auto integer = [&] { return rows.integer(at, column++); };
  const auto text = [&] { return rows.text(at, column++); };
  row.id = text(), row.owner = text();
  row.status = static_cast<Status>(integer()), row.paused = rows.truth(at, column++);
  row.wish = static_cast<Wish>(integer());
  row.priority = static_cast<int>(integer()), row.place = rows.real(at, column++);
  row.model = text(), row.needs = text(), row.kind = text();
  row.planned_seconds = rows.real(at, column++);
  row.created_ms = integer(), row.started_ms = integer(), row.ended_ms = integer();
  row.expires_ms = integer();
  row.progress = static_cast<int>(integer()), row.attempts = static_cast<int>(integer());
  row.worker = text(), row.bytes = static_cast<uint64_t>(integer());
  row.error.code = text(), row.error.message = text();
  row.facts = text(), row.files = text(), row.why = text(), row.awaits = text(), row.request = text(),
  row.settings = text();
  return row;
}

std::vector<JobRow> job_rows(const postgres::Rows& rows) {
  std::vector<JobRow> found;
  for (int i = 0; i < rows.count(); ++i) found.push_back(job_row(rows, i));
  return found;
}

std::optional<JobRow> find_job(postgres::Connection& connection, const std::string& id) {
  const postgres::Rows rows = connection.query(TACHY_SELECT_JOB "WHERE j.id = $1", id);
  return rows.empty() ? std::nullopt : std::optional(job_row(rows, 0));
}

std::optional<std::pair<JobRow, std::string>> find_version(postgres::Connection& connection,
                                                           const std::string& id) {
  const postgres::Rows rows =
      connection.query("SELECT " TACHY_JOB_COLUMNS ", j.xmin " TACHY_FROM_JOBS "WHERE j.id = $1", id);
  if (rows.empty()) return std::nullopt;
  return std::pair(job_row(rows, 0), rows.text(0, rows.columns() - 1));
}

std::vector<std::string> changed_jobs(postgres::Connection& connection,
                                      const std::vector<PolledRows::Seen>& jobs) {
  std::string ids = "{", versions = "{";
  for (const PolledRows::Seen& job : jobs) {
    if (ids.size() > 1) ids += ',', versions += ',';
    ids += job.id, versions += job.version;
  }
  const postgres::Rows rows = connection.query(
      "SELECT s.id FROM unnest($1::text[], $2::text[]) AS s(id, version) LEFT JOIN jobs j ON j.id = s.id "
      "WHERE j.xmin::text IS DISTINCT FROM s.version",
      ids + '}', versions + '}');
  std::vector<std::string> changed;
  for (int i = 0; i < rows.count(); ++i) changed.push_back(rows.text(i, 0));
  return changed;
}

std::optional<JobRow> find_and_lock(postgres::Connection& connection, const std::string& id) {
  const postgres::Rows rows = connection.query(TACHY_SELECT_JOB "WHERE j.id = $1 FOR UPDATE OF j", id);
  return rows.empty() ? std::nullopt : std::optional(job_row(rows, 0));
}

void insert_job(postgres::Connection& connection, const JobRow& job) {
  connection.query(
      "WITH made AS (INSERT INTO jobs (id, owner, paused, priority, place, model, needs, kind, "
      "planned_seconds, "
      "created_ms, expires_ms, facts, files, awaits) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, "
      "$12, $13, $14) "
      "RETURNING "
      "seq) "
      "INSERT INTO job_texts (seq, request, settings) SELECT seq, $15, $16 FROM made",
      job.id, job.owner, job.paused, job.priority, job.place, job.model, job.needs, job.kind,
      job.planned_seconds, job.created_ms, job.expires_ms, job.facts, job.files, job.awaits, job.request,
      job.settings);
}

void insert_webhook(postgres::Connection& connection, const Webhook& message) {
  connection.query(
      "INSERT INTO webhooks (id, job, type, body, attempts, due_ms) VALUES ($1, $2, $3, $4, $5, $6)",
      message.id, message.job, message.type, message.body, message.attempts, message.due_ms);
}

// An owner whose first charge is negative has nothing that could be given back.
void charge(postgres::Connection& connection, const std::string& owner, double seconds,
            std::optional<int64_t> now_ms) {
  connection.query(
      "INSERT INTO shares AS s (owner, seconds, at_ms) VALUES ($1, greatest(0, $2::float8), clock_ms($3)) "
      "ON CONFLICT (owner) DO UPDATE SET at_ms = excluded.at_ms, seconds = greatest(0, $2::float8 + "
      "s.seconds * "
      "power(0.5, greatest(0, excluded.at_ms - s.at_ms) / 1000.0::float8 / $4))",
      owner, seconds, now_ms, kHalfLifeSeconds);
}

}  // namespace tachy::queue
