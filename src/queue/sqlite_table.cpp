// The functions that only read: rows, pages, counts, and the jobs that wait.
#include "queue/sqlite_table.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "queue/policy.h"
#include "queue/sqlite_rows.h"

namespace tachy::queue {
namespace {

// Reads up to `most` jobs of a query that gives one more where there are more.
Page page_of(Query query, int64_t most) {
  Page page;
  while (query.next()) {
    page.has_more = static_cast<int64_t>(page.rows.size()) == most;
    if (page.has_more) break;
    page.rows.push_back(job_row(query));
  }
  return page;
}

}  // namespace

SqliteTable::SqliteTable(const std::filesystem::path& file, SqliteOptions options)
    : options_(std::move(options)), pool_(file) {}

int64_t SqliteTable::now_ms() const {
  if (options_.now_ms) return options_.now_ms();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::optional<JobRow> SqliteTable::find(const std::string& id) {
  const uint64_t changes = rows_.changes();
  std::optional<JobRow> row = pool_.read([&](Sqlite& database) { return find_job(database, id); });
  if (row) rows_.put(*row, changes);
  return row;
}

// A page begins behind the number of the job `after` and not at an offset, so that it costs as much at the
// end of the list as at its beginning, and a job that is added or removed in between moves no other one.
Page SqliteTable::list(const std::string* owner, const std::string& after, int limit, bool ascending) {
  static const std::string kUp = " ORDER BY j.seq LIMIT ?", kDown = " ORDER BY j.seq DESC LIMIT ?";
  static const std::string kOfAll[] = {kSelectJob + "WHERE j.seq < ?" + kDown,
                                       kSelectJob + "WHERE j.seq > ?" + kUp};
  static const std::string kOfOwner[] = {kSelectJob + "WHERE j.owner = ? AND j.seq < ?" + kDown,
                                         kSelectJob + "WHERE j.owner = ? AND j.seq > ?" + kUp};
  const int64_t most = std::max(limit, 0);
  return pool_.read([&](Sqlite& database) {
    int64_t behind = ascending ? 0 : INT64_MAX;
    if (!after.empty()) {
      Query query = database.query("SELECT seq, owner FROM jobs WHERE id = ?", after);
      check(query.next() && (!owner || query.text(1) == *owner), ErrorCode::not_found,
            "`after`: there is no video {}", after);
      behind = query.integer(0);
    }
    return page_of(owner ? database.query(kOfOwner[ascending], *owner, behind, most + 1)
                         : database.query(kOfAll[ascending], behind, most + 1),
                   most);
  });
}

Page SqliteTable::active(const std::string* owner, int limit) {
  static const std::string kOrder = " ORDER BY j.status DESC, j.priority DESC, j.place, j.seq LIMIT ?";
  static const std::string kOfAll = kSelectJob + "WHERE j.status < 2" + kOrder,
                           kOfOwner = kSelectJob + "WHERE j.status < 2 AND j.owner = ?" + kOrder;
  const int64_t most = std::max(limit, 0);
  return pool_.read([&](Sqlite& database) {
    return page_of(owner ? database.query(kOfOwner, *owner, most + 1) : database.query(kOfAll, most + 1),
                   most);
  });
}

std::vector<WaitingJob> SqliteTable::waiting() {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query(
        "SELECT id, owner, model, needs, priority, place, planned_seconds, created_ms, attempts, paused, "
        "awaits "
        "FROM jobs WHERE status = 0 ORDER BY priority DESC, place, seq");
    std::vector<WaitingJob> jobs;
    while (query.next())
      jobs.push_back({.id = query.text(0),
                      .owner = query.text(1),
                      .model = query.text(2),
                      .needs = query.text(3),
                      .priority = static_cast<int>(query.integer(4)),
                      .place = query.real(5),
                      .planned_seconds = query.real(6),
                      .created_ms = query.integer(7),
                      .attempts = static_cast<int>(query.integer(8)),
                      .paused = query.integer(9) != 0,
                      .awaits = query.text(10)});
    return jobs;
  });
}

Counts SqliteTable::counts() {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query("SELECT status, count(*) FROM jobs GROUP BY status");
    Counts counts;
    int64_t* const fields[] = {&counts.queued, &counts.running, &counts.completed, &counts.failed};
    while (query.next()) *fields[std::clamp<int64_t>(query.integer(0), 0, 3)] = query.integer(1);
    return counts;
  });
}

std::vector<std::string> SqliteTable::outdated(int64_t now_ms, uint64_t most_bytes) {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query(
        "SELECT id, bytes, expires_ms FROM jobs WHERE status >= 2 ORDER BY ended_ms DESC, seq DESC");
    std::vector<std::string> ids;
    uint64_t kept = 0;
    bool full = false;
    while (query.next()) {
      const int64_t expires = query.integer(2);
      if (expires > 0 && expires <= now_ms) {
        ids.push_back(query.text(0));
        continue;
      }
      kept += static_cast<uint64_t>(query.integer(1));
      full |= most_bytes > 0 && kept > most_bytes;
      if (full) ids.push_back(query.text(0));
    }
    std::reverse(ids.begin(), ids.end());  // the oldest first
    return ids;
  });
}

std::map<std::string, double> SqliteTable::used_seconds() {
  return pool_.read([&](Sqlite& database) {
    const int64_t at = now_ms();
    Query query = database.query("SELECT owner, seconds, at_ms FROM shares");
    std::map<std::string, double> used;
    while (query.next()) used[query.text(0)] = still_counted(query.real(1), query.integer(2), at);
    return used;
  });
}

}  // namespace tachy::queue
