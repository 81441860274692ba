// Rows of the database as the structures of job_row.h, and what several of the table's functions do with
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "queue/job_row.h"
#include "queue/sqlite.h"

namespace tachy::queue {

// "SELECT …" of all that a JobRow has, from jobs j and their texts t; a condition follows.
extern const std::string kSelectJob;
JobRow job_row(const Query& query);  // of a statement that begins with kSelectJob

std::optional<JobRow> find_job(Sqlite& database, const std::string& id);
void insert_job(Sqlite& database, const JobRow& job);
void insert_webhook(Sqlite& database, const Webhook& message);

// Adds planned seconds to what an owner has used; negative ones are given back. What was used is forgotten by
// half in each half-life (policy.h).
void charge(Sqlite& database, const std::string& owner, double seconds, int64_t now_ms);
}  // namespace tachy::queue
