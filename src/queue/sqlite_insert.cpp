// New jobs, changes to those that wait, and removal.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "queue/sqlite_rows.h"
#include "queue/sqlite_table.h"
#include "queue/wishes.h"

namespace tachy::queue {
namespace {

// Returns the earlier job of this owner and key, or nothing. Keys that have become too old are forgotten.
std::optional<Inserted> earlier_insert(Sqlite& database, const std::string& owner, const std::string& key,
                                       const std::string& fingerprint, int64_t now_ms) {
  static const std::string kFind = kSelectJob + "WHERE j.seq = ?";
  database.change("DELETE FROM idempotency WHERE created_ms <= ?", now_ms - kIdempotencyMs);
  int64_t seq = 0;
  bool same = false;
  {
    Query query =
        database.query("SELECT seq, fingerprint FROM idempotency WHERE owner = ? AND key = ?", owner, key);
    if (!query.next()) return std::nullopt;
    seq = query.integer(0), same = query.text(1) == fingerprint;
  }
  Query query = database.query(kFind, seq);
  if (!query.next()) return std::nullopt;
  return Inserted{same ? Inserted::How::repeated : Inserted::How::mismatch, job_row(query)};
}

int64_t count(Query query) { return query.next() ? query.integer(0) : 0; }

// Places are whole numbers in the order of creation, until a job is moved in between two others.
double last_place(Sqlite& database) {
  Query query = database.query("SELECT max(place) FROM jobs WHERE status < 2");
  return query.next() ? query.real(0) : 0;
}

// Numbers the places of the jobs of one priority anew, in their order: between two of them there was no
// number left.
void spread_places(Sqlite& database, int priority) {
  std::vector<int64_t> order;
  {
    Query query = database.query("SELECT seq FROM jobs WHERE status = 0 AND priority = ? ORDER BY place, seq",
                                 priority);
    while (query.next()) order.push_back(query.integer(0));
  }
  // Beyond all others, so that jobs of other priorities keep theirs.
  double place = std::floor(last_place(database));
  for (const int64_t seq : order) database.change("UPDATE jobs SET place = ? WHERE seq = ?", ++place, seq);
}

// Returns the place of the job that waits next in front of this place, or nothing. The job that is moved does
// not count, or it would be in its own way.
std::optional<double> place_below(Sqlite& database, int priority, double place, const std::string& moved) {
  Query query = database.query(
      "SELECT place FROM jobs WHERE status = 0 AND priority = ? AND place < ? AND id <> ? "
      "ORDER BY place DESC LIMIT 1",
      priority, place, moved);
  if (!query.next()) return std::nullopt;
  return query.real(0);
}

// Returns a place in front of the job `before`, which waits with this priority.
double place_before(Sqlite& database, const JobRow& moved, const std::string& before, int priority) {
  for (int tries = 0;; ++tries) {
    const std::optional<JobRow> next = find_job(database, before);
    check(next && next->status == Status::queued, ErrorCode::not_found, "`before`: no video {} is waiting",
          before);
    require(next->priority == priority, "`before`: {} has the priority {}, and this video {}", before,
            next->priority, priority);
    if (next->id == moved.id) return moved.place;
    const std::optional<double> lower = place_below(database, priority, next->place, moved.id);
    if (!lower) return next->place - 1;
    const double middle = *lower + (next->place - *lower) / 2;
    if (middle > *lower && middle < next->place) return middle;
    check(tries == 0, ErrorCode::internal, "the queue has no place between two jobs");
    spread_places(database, priority);
  }
}

}  // namespace

Inserted SqliteTable::insert(const JobRow& job, const std::string& idempotency,
                             const std::string& fingerprint, int64_t most_queued, int64_t most_of_owner) {
  return write(job.id, [&](Sqlite& database) -> Inserted {
    const int64_t now_ms = this->now_ms();
    if (!idempotency.empty())
      if (auto found = earlier_insert(database, job.owner, idempotency, fingerprint, now_ms)) return *found;
    if (most_of_owner > 0 && count(database.query("SELECT count(*) FROM jobs WHERE status = 0 AND owner = ?",
                                                  job.owner)) >= most_of_owner)
      return {Inserted::How::owner_full, {}};
    if (most_queued > 0 && count(database.query("SELECT count(*) FROM jobs WHERE status = 0")) >= most_queued)
      return {Inserted::How::queue_full, {}};
    JobRow row = job;
    row.place = std::floor(last_place(database)) + 1;
    if (row.created_ms == 0) row.created_ms = now_ms;
    insert_job(database, row);
    if (!idempotency.empty())
      database.change(
          "INSERT INTO idempotency (owner, key, fingerprint, seq, created_ms) "
          "SELECT ?, ?, ?, seq, ? FROM jobs WHERE id = ?",
          row.owner, idempotency, fingerprint, now_ms, row.id);
    return {Inserted::How::made, find_job(database, row.id).value()};
  });
}

std::optional<JobRow> SqliteTable::change(const std::string& id, const Change& change) {
  // A new place between two others may move all of them.
  return write("", [&](Sqlite& database) -> std::optional<JobRow> {
    std::optional<JobRow> row = find_job(database, id);
    if (!row || row->status != Status::queued) return std::nullopt;
    if (change.expect) change.expect(*row);
    row->model = change.model.value_or(row->model), row->needs = change.needs.value_or(row->needs);
    row->facts = change.facts.value_or(row->facts), row->priority = change.priority.value_or(row->priority);
    row->planned_seconds = change.planned_seconds.value_or(row->planned_seconds);
    row->awaits = change.awaits.value_or(row->awaits);
    if (change.before)
      row->place = change.before->empty() ? std::floor(last_place(database)) + 1
                                          : place_before(database, *row, *change.before, row->priority);
    database.change(
        "UPDATE jobs SET model = ?, needs = ?, facts = ?, priority = ?, planned_seconds = ?, place = ?, "
        "awaits = ? WHERE id = ?",
        row->model, row->needs, row->facts, row->priority, row->planned_seconds, row->place, row->awaits, id);
    if (change.request || change.settings) {
      row->request = change.request.value_or(row->request);
      row->settings = change.settings.value_or(row->settings);
      database.change(
          "UPDATE job_texts SET request = ?, settings = ? WHERE seq = (SELECT seq FROM jobs WHERE id = ?)",
          row->request, row->settings, id);
    }
    return row;
  });
}

bool SqliteTable::remove(const std::string& id) {
  return write(id,
               [&](Sqlite& database) { return database.change("DELETE FROM jobs WHERE id = ?", id) > 0; });
}

}  // namespace tachy::queue
