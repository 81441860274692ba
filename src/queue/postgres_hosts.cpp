// The hosts that share the queue, where a job's files are, and what keys have used.
#include "base/error.h"
#include "queue/postgres_rows.h"
#include "queue/postgres_table.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

constexpr int64_t kForgottenMs = int64_t{24} * 3600 * 1000;

}  // namespace

// Nothing here must outlive a crash of the database: the next announcement comes in a few seconds. A host
// that was killed may come back under its name at once, since it has the same folder.
void PostgresTable::announce(const HostRow& host) {
  const auto lease_ms = static_cast<int64_t>(options_.lease_seconds * 1000);
  pool_.change([&](Connection& connection, bool) {
    connection.run("SET LOCAL synchronous_commit = off");
    const int64_t changed = connection.change(
        "INSERT INTO hosts AS h (name, address, files, about, seen_ms) VALUES ($1, $2, $3, $4, clock_ms($5)) "
        "ON CONFLICT (name) DO UPDATE SET address = excluded.address, files = excluded.files, "
        "about = excluded.about, seen_ms = excluded.seen_ms "
        "WHERE h.files = excluded.files OR h.seen_ms + $6 < excluded.seen_ms",
        host.name, host.address, host.files, host.about, at(), lease_ms);
    check(changed > 0, ErrorCode::io, "another host with the name {} is there; give this one its own",
          host.name);
  });
}

// The row stays, so that a host that is gone has a name for whoever asks for its files.
void PostgresTable::depart(const HostRow& host) {
  pool_.run([&](Connection& connection, bool) {
    connection.query(
        "UPDATE hosts SET seen_ms = least(seen_ms, clock_ms($3) - $4 - 1) WHERE name = $1 AND files = $2",
        host.name, host.files, at(), static_cast<int64_t>(options_.lease_seconds * 1000));
  });
}

std::vector<HostRow> PostgresTable::hosts() {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows = connection.query(
        "SELECT name, address, files, about, clock_ms($1) - seen_ms AS silent FROM hosts "
        "WHERE seen_ms > clock_ms($1) - $2::bigint ORDER BY name",
        at(), kForgottenMs);
    std::vector<HostRow> hosts;
    for (int i = 0; i < rows.count(); ++i) {
      const double silent = static_cast<double>(rows.integer(i, 4)) / 1e3;
      hosts.push_back({.name = rows.text(i, 0),
                       .address = rows.text(i, 1),
                       .files = rows.text(i, 2),
                       .about = rows.text(i, 3),
                       .alive = silent < options_.lease_seconds,
                       .silent_seconds = silent});
    }
    return hosts;
  });
}

// A crash of the database that forgets this leaves the job's files where they were, which the worker that
// begins it again corrects.
void PostgresTable::placed(const std::string& id, const std::string& worker, const std::string& files,
                           const std::string& why) {
  pool_.change([&](Connection& connection, bool) {
    connection.run("SET LOCAL synchronous_commit = off");
    connection.query("UPDATE jobs SET files = $3, why = $4 WHERE id = $1 AND worker = $2 AND status = 1", id,
                     worker, files, why);
  });
  rows_.drop(id);
}

void use(Connection& connection, const std::string& owner, const std::string& model, int64_t jobs,
         const Usage& used, std::optional<int64_t> now_ms) {
  if (jobs == 0 && used.seconds <= 0) return;
  connection.query(
      "INSERT INTO usage AS u (owner, day, model, jobs, frames, pixels, seconds) "
      "VALUES ($1, clock_ms($2) / 86400000, $3, $4, $5, $6, $7) ON CONFLICT (owner, day, model) DO UPDATE "
      "SET "
      "jobs = u.jobs + excluded.jobs, frames = u.frames + excluded.frames, pixels = u.pixels + "
      "excluded.pixels, "
      "seconds = u.seconds + excluded.seconds",
      owner, now_ms, model, jobs, used.frames, used.pixels, used.seconds);
}

void PostgresTable::add_usage(const std::string& owner, const std::string& model, const Usage& used) {
  pool_.change([&](Connection& connection, bool) { use(connection, owner, model, 0, used, at()); });
}

std::vector<UsageRow> PostgresTable::usage(const std::string* owner, int64_t first_day, int64_t last_day) {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows = connection.query(
        "SELECT owner, day, model, jobs, frames, pixels, seconds FROM usage WHERE day BETWEEN $1 AND $2 "
        "AND ($3::boolean OR owner = $4) ORDER BY day, owner, model",
        first_day, last_day, owner == nullptr, owner ? *owner : std::string());
    std::vector<UsageRow> found;
    for (int i = 0; i < rows.count(); ++i)
      found.push_back({.owner = rows.text(i, 0),
                       .model = rows.text(i, 2),
                       .day = rows.integer(i, 1),
                       .jobs = rows.integer(i, 3),
                       .used = {rows.integer(i, 4), rows.real(i, 5), rows.real(i, 6)}});
    return found;
  });
}

}  // namespace tachy::queue
