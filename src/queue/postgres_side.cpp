// The tables beside that of the jobs: messages about their ends that are still to be sent, and presets.
#include "base/error.h"
#include "queue/postgres_table.h"

namespace tachy::queue {

using postgres::Connection;
using postgres::Rows;

// Each message goes to one host, which has a while to send it.
std::vector<Webhook> PostgresTable::due_webhooks(int64_t now_ms, int limit) {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows = connection.query(
        "WITH due AS (SELECT id, due_ms FROM webhooks WHERE due_ms <= $1 ORDER BY due_ms, id LIMIT $2 "
        "FOR UPDATE SKIP LOCKED), handed AS (UPDATE webhooks w SET due_ms = CASE WHEN $3::bigint > 0 THEN "
        "$1::bigint + $3::bigint ELSE w.due_ms END FROM due WHERE w.id = due.id "
        "RETURNING w.id, w.job, w.type, w.body, w.attempts, due.due_ms) "
        "SELECT id, job, type, body, attempts, due_ms FROM handed ORDER BY due_ms, id",
        now_ms, limit, options_.message_ms);
    std::vector<Webhook> due;
    for (int i = 0; i < rows.count(); ++i)
      due.push_back({.id = rows.text(i, 0),
                     .job = rows.text(i, 1),
                     .type = rows.text(i, 2),
                     .body = rows.text(i, 3),
                     .attempts = static_cast<int>(rows.integer(i, 4)),
                     .due_ms = rows.integer(i, 5)});
    return due;
  });
}

void PostgresTable::webhook_sent(const std::string& id) {
  pool_.run(
      [&](Connection& connection, bool) { connection.query("DELETE FROM webhooks WHERE id = $1", id); });
}

void PostgresTable::webhook_later(const std::string& id, int64_t due_ms) {
  pool_.run([&](Connection& connection, bool) {
    connection.query("UPDATE webhooks SET attempts = attempts + 1, due_ms = $2 WHERE id = $1", id, due_ms);
  });
}

std::vector<Preset> PostgresTable::presets(const std::string& owner) {
  return pool_.run([&](Connection& connection, bool) {
    const Rows rows =
        connection.query("SELECT name, owner, fields FROM presets WHERE owner = $1 ORDER BY name", owner);
    std::vector<Preset> presets;
    for (int i = 0; i < rows.count(); ++i)
      presets.push_back({.name = rows.text(i, 0), .owner = rows.text(i, 1), .fields = rows.text(i, 2)});
    return presets;
  });
}

// One owner's presets are saved one after another, so that the limit holds.
void PostgresTable::save_preset(const Preset& preset, int64_t most) {
  pool_.change([&](Connection& connection, bool) {
    connection.query("SELECT pg_advisory_xact_lock(1415668586, hashtext($1))", preset.owner);
    if (connection.change("UPDATE presets SET fields = $1 WHERE owner = $2 AND name = $3", preset.fields,
                          preset.owner, preset.name) > 0)
      return;
    require(
        connection.query("SELECT count(*) FROM presets WHERE owner = $1", preset.owner).integer(0, 0) < most,
        "`name`: there are {} presets, and no more can be kept; remove one first", most);
    connection.query("INSERT INTO presets (owner, name, fields) VALUES ($1, $2, $3)", preset.owner,
                     preset.name, preset.fields);
  });
}

bool PostgresTable::remove_preset(const std::string& owner, const std::string& name) {
  return pool_.run([&](Connection& connection, bool again) {
    return connection.change("DELETE FROM presets WHERE owner = $1 AND name = $2", owner, name) > 0 || again;
  });
}

}  // namespace tachy::queue
