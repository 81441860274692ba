// The functions that only read: rows, pages, counts, and the jobs that wait. What other hosts tell comes
// here, too.
#include "queue/postgres_table.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "postgres/address.h"
#include "queue/policy.h"
#include "queue/postgres_pace.h"
#include "queue/postgres_rows.h"
#include "queue/postgres_schema.h"
#include "queue/postgres_wakes.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

// Ended jobs are counted anew after this time, where there are more than a few.
constexpr int64_t kCountsMs = 10'000, kCountedAtOnce = 10'000;

const std::string& checked_address(const std::string& address) {
  postgres::check_address(address);
  return address;
}

const std::string& checked_schema(const std::string& name) {
  require(!name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos,
          "the schema's name has letters, digits and '_', got '{}'", name);
  return name;
}

// Makes a page of rows of which one more was asked for.
Page page_of(const Rows& rows, int64_t most) {
  Page page{.rows = job_rows(rows)};
  page.has_more = static_cast<int64_t>(page.rows.size()) > most;
  if (page.has_more) page.rows.pop_back();
  return page;
}

}  // namespace

PostgresTable::PostgresTable(const std::string& address, PostgresOptions options)
    : options_(std::move(options)),
      pool_(checked_address(address), checked_schema(options_.schema), options_.patience_seconds),
      channel_(options_.schema),
      wakes_(std::make_shared<PostgresWakes>()),
      rows_([this](const std::vector<PolledRows::Seen>& rows) { return changed(rows); },
            [this](size_t rows) { return std::chrono::milliseconds(check_interval_ms(hosts_, rows)); }) {
  migrate(pool_);
  listener_ = std::make_unique<postgres::Listener>(address, options_.schema, channel_,
                                                   [this](const std::string& message) { hear(message); });
  // From now on this table hears all that others tell.
  for (int tries = 0; tries < 100 && !listener_->hears(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void PostgresTable::hear(const std::string& message) {
  if (message.empty()) rows_.drop_all();
  if (!wakes_->concerns(message, hosts_)) return;
  ++version_;
  wakes_->call();
}

PostgresTable::~PostgresTable() = default;

int64_t PostgresTable::now_ms() const { return options_.now_ms ? options_.now_ms() : pool_.now_ms(); }

std::optional<int64_t> PostgresTable::at() const {
  return options_.now_ms ? std::optional(options_.now_ms()) : std::nullopt;
}

void PostgresTable::tell(Connection& connection, const std::string& worker) const {
  connection.query("SELECT pg_notify($1, $2)", channel_, wakes_->message_for(worker));
}

std::shared_ptr<void> PostgresTable::listen(std::function<void()> wake) {
  return wakes_->add(std::move(wake));
}

// Changes of others that nobody tells of (a claim, an end) are seen after a while.
uint64_t PostgresTable::version() const {
  const int64_t now = now_ms();
  int64_t last = version_ms_;
  if ((now >= last + look_interval_ms(hosts_, queued_) || now < last) &&
      version_ms_.compare_exchange_strong(last, now))
    ++version_;
  return version_;
}

std::optional<JobRow> PostgresTable::find(const std::string& id) {
  if (id.find('\0') != id.npos) return std::nullopt;
  const PolledRows::Moment before = rows_.now();
  std::optional<std::pair<JobRow, std::string>> found =
      pool_.run([&](Connection& connection, bool) { return find_version(connection, id); });
  if (!found) return std::nullopt;
  rows_.put(found->first, std::move(found->second), before);
  return std::move(found->first);
}

// Without the connection that hears of others, the database may be away.
std::shared_ptr<const JobRow> PostgresTable::known(const std::string& id) {
  return listener_->hears() ? rows_.get(id) : nullptr;
}

std::vector<std::string> PostgresTable::changed(const std::vector<PolledRows::Seen>& rows) {
  return pool_.run([&](Connection& connection, bool) { return changed_jobs(connection, rows); });
}

Page PostgresTable::list(const std::string* owner, const std::string& after, int limit, bool ascending) {
  static constexpr const char* kAll[] = {TACHY_SELECT_JOB "WHERE j.seq < $1 ORDER BY j.seq DESC LIMIT $2",
                                         TACHY_SELECT_JOB "WHERE j.seq > $1 ORDER BY j.seq LIMIT $2"};
  static constexpr const char* kOwners[] = {
      TACHY_SELECT_JOB "WHERE j.owner = $3 AND j.seq < $1 ORDER BY j.seq DESC LIMIT $2",
      TACHY_SELECT_JOB "WHERE j.owner = $3 AND j.seq > $1 ORDER BY j.seq LIMIT $2"};
  const int64_t most = std::max(limit, 0);
  return pool_.run([&](Connection& connection, bool) {
    int64_t behind = ascending ? 0 : INT64_MAX;
    if (!after.empty()) {
      const Rows rows = connection.query("SELECT seq, owner FROM jobs WHERE id = $1", after);
      check(!rows.empty() && (!owner || rows.text(0, 1) == *owner), ErrorCode::not_found,
            "`after`: there is no video {}", after);
      behind = rows.integer(0, 0);
    }
    return page_of(owner ? connection.query(kOwners[ascending], behind, most + 1, *owner)
                         : connection.query(kAll[ascending], behind, most + 1),
                   most);
  });
}

Page PostgresTable::active(const std::string* owner, int limit) {
  const int64_t most = std::max(limit, 0);
  const std::optional<std::string> whose = owner ? std::optional(*owner) : std::nullopt;
  return pool_.run([&](Connection& connection, bool) {
    return page_of(
        connection.query(TACHY_SELECT_JOB "WHERE j.status < 2 AND ($1::text IS NULL OR j.owner = $1) "
                                          "ORDER BY j.status DESC, j.priority DESC, j.place, j.seq LIMIT $2",
                         whose, most + 1),
        most);
  });
}

std::vector<WaitingJob> PostgresTable::waiting() {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows = connection.query(
        "SELECT id, owner, model, needs, priority, place, planned_seconds, created_ms, attempts, paused, "
        "files, awaits FROM jobs WHERE status = 0 ORDER BY priority DESC, place, seq");
    std::vector<WaitingJob> jobs;
    for (int i = 0; i < rows.count(); ++i)
      jobs.push_back({.id = rows.text(i, 0),
                      .owner = rows.text(i, 1),
                      .model = rows.text(i, 2),
                      .needs = rows.text(i, 3),
                      .priority = static_cast<int>(rows.integer(i, 4)),
                      .place = rows.real(i, 5),
                      .planned_seconds = rows.real(i, 6),
                      .created_ms = rows.integer(i, 7),
                      .attempts = static_cast<int>(rows.integer(i, 8)),
                      .paused = rows.truth(i, 9),
                      .files = rows.text(i, 10),
                      .awaits = rows.text(i, 11)});
    queued_ = rows.count();
    return jobs;
  });
}

// Jobs that wait and those that run are few. The ended ones may be millions, and every new job asks.
Counts PostgresTable::counts() {
  const std::lock_guard lock(counts_mutex_);
  pool_.run([&](Connection& connection, bool) {
    const int64_t now = pool_.now_ms();
    const bool all = now >= counts_until_ms_;
    const Rows rows = connection.query(
        "SELECT status, count(*) FROM jobs WHERE status < 2 GROUP BY status "
        "UNION ALL SELECT status, count(*) FROM jobs WHERE status >= 2 AND $1::boolean GROUP BY status",
        all);
    counts_.queued = counts_.running = 0;
    if (all) counts_.completed = counts_.failed = 0;
    int64_t* const fields[] = {&counts_.queued, &counts_.running, &counts_.completed, &counts_.failed};
    for (int i = 0; i < rows.count(); ++i)
      *fields[std::clamp<int64_t>(rows.integer(i, 0), 0, 3)] = rows.integer(i, 1);
    if (all) counts_until_ms_ = counts_.completed + counts_.failed > kCountedAtOnce ? now + kCountsMs : 0;
  });
  return counts_;
}

std::map<std::string, double> PostgresTable::used_seconds() {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows = connection.query("SELECT owner, seconds, at_ms, clock_ms($1) FROM shares", at());
    std::map<std::string, double> used;
    for (int i = 0; i < rows.count(); ++i)
      used[rows.text(i, 0)] = still_counted(rows.real(i, 1), rows.integer(i, 2), rows.integer(i, 3));
    return used;
  });
}

}  // namespace tachy::queue
