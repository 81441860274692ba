// Jobs as rows of PostgreSQL. Private to src/queue.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "postgres/connection.h"
#include "queue/job_row.h"
#include "queue/polled_rows.h"

namespace tachy::queue {

// A list of all that a JobRow has, from jobs j and their texts t.
#define TACHY_JOB_COLUMNS                                                                             \
  "j.id, j.owner, j.status, j.paused, j.wish, j.priority, j.place, j.model, j.needs, j.kind, "        \
  "j.planned_seconds, j.created_ms, j.started_ms, j.ended_ms, j.expires_ms, j.progress, j.attempts, " \
  "j.worker, j.bytes, j.error_code, j.error_message, j.facts, j.files, j.why, j.awaits, t.request, "  \
  "t.settings "
// "SELECT …" of them; a condition follows.
#define TACHY_FROM_JOBS "FROM jobs j JOIN job_texts t ON t.seq = j.seq "
#define TACHY_SELECT_JOB "SELECT " TACHY_JOB_COLUMNS TACHY_FROM_JOBS

JobRow job_row(const postgres::Rows& rows, int at);  // of a statement with TACHY_JOB_COLUMNS
std::vector<JobRow> job_rows(const postgres::Rows& rows);

std::optional<JobRow> find_job(postgres::Connection& connection, const std::string& id);
// Returns the row with its version, which is the number of the transaction that wrote it last.
std::optional<std::pair<JobRow, std::string>> find_version(postgres::Connection& connection,
                                                           const std::string& id);
// Returns the ids of those jobs that have another version by now, or are gone. The ids are those of jobs.
std::vector<std::string> changed_jobs(postgres::Connection& connection,
                                      const std::vector<PolledRows::Seen>& jobs);
// Finds the job and keeps everybody else from changing it until the transaction ends.
std::optional<JobRow> find_and_lock(postgres::Connection& connection, const std::string& id);
void insert_job(postgres::Connection& connection, const JobRow& job);
// Does nothing if the message is there already.
void insert_webhook(postgres::Connection& connection, const Webhook& message);

// Adds planned seconds to what an owner has used; negative ones are given back. What was used is forgotten by
// half in each half-life (policy.h). `now_ms` is nothing for the database's clock.
void charge(postgres::Connection& connection, const std::string& owner, double seconds,
            std::optional<int64_t> now_ms);

// Adds to the table of usage; `jobs` is 1 for a completed one.
void use(postgres::Connection& connection, const std::string& owner, const std::string& model, int64_t jobs,
         const Usage& used, std::optional<int64_t> now_ms);

}  // namespace tachy::queue
