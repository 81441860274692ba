// Finds the ended jobs that are to be removed. Every host asks every minute, and ended jobs may be millions.
// So those that have expired are found by their index, and how much all of them take is known from the last
// time, with what has ended since: only if that is more than may be kept are all rows read.
#include "queue/postgres_table.h"

namespace tachy::queue {
namespace {

using postgres::Connection;
using postgres::Rows;

// Rows whose end lies further back are in the table by now. A few may not be: they are counted a day later.
constexpr int64_t kSettledMs = 60'000, kCountedAnewMs = 24 * 3600 * 1000;

void add_ids(const Rows& rows, std::vector<std::string>& to) {
  for (int i = 0; i < rows.count(); ++i) to.push_back(rows.text(i, 0));
}

// Returns the sum of the bytes of jobs that ended after one time, and up to another one.
uint64_t bytes_between(Connection& connection, int64_t after_ms, int64_t until_ms) {
  return static_cast<uint64_t>(connection
                                   .query("SELECT coalesce(sum(bytes), 0) FROM jobs WHERE status >= 2 AND "
                                          "ended_ms > $1 AND ended_ms <= $2",
                                          after_ms, until_ms)
                                   .integer(0, 0));
}

}  // namespace

// Removals are not counted, so this may be too much, and is counted anew before anything is removed for it.
bool PostgresTable::may_take_more_than(uint64_t most_bytes, int64_t now_ms) {
  const int64_t settled_ms = now_ms - kSettledMs;
  const std::lock_guard lock(taken_mutex_);
  return pool_.run([&](Connection& connection, bool) {
    const auto recent = [&] { return bytes_between(connection, settled_ms, INT64_MAX); };
    Taken taken = taken_;
    if (taken.until_ms > 0 && taken.until_ms <= settled_ms && now_ms < taken.counted_ms + kCountedAnewMs)
      taken.bytes += bytes_between(connection, taken.until_ms, settled_ms), taken.until_ms = settled_ms;
    else
      taken = {};
    if (taken.until_ms == 0 || taken.bytes + recent() > most_bytes)
      taken = {bytes_between(connection, 0, settled_ms), settled_ms, now_ms};
    taken_ = taken;
    return taken.bytes + recent() > most_bytes;
  });
}

std::vector<std::string> PostgresTable::outdated(int64_t now_ms, uint64_t most_bytes) {
  const bool full = most_bytes > 0 && may_take_more_than(most_bytes, now_ms);
  return pool_.run([&](Connection& connection, bool) {
    std::vector<std::string> ids;
    if (!full) {
      add_ids(
          connection.query("SELECT id FROM jobs WHERE status >= 2 AND expires_ms > 0 AND expires_ms <= $1 "
                           "ORDER BY ended_ms, seq",
                           now_ms),
          ids);
      return ids;
    }
    add_ids(connection.query(
                "SELECT id FROM (SELECT id, ended_ms, seq FROM jobs WHERE status >= 2 AND expires_ms > 0 AND "
                "expires_ms <= $1 UNION ALL SELECT id, ended_ms, seq FROM (SELECT id, ended_ms, seq, "
                "sum(bytes) OVER "
                "(ORDER BY ended_ms DESC, seq DESC) AS kept FROM jobs WHERE status >= 2 AND NOT (expires_ms "
                "> 0 AND "
                "expires_ms <= $1)) AS ended WHERE kept > $2::numeric) AS outdated ORDER BY ended_ms, seq",
                now_ms, most_bytes),
            ids);
    return ids;
  });
}

}  // namespace tachy::queue
