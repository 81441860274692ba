// The tables beside that of the jobs: messages about their ends that are still to be sent, presets, and usage.
#include "base/error.h"
#include "queue/sqlite_rows.h"
#include "queue/sqlite_table.h"

namespace tachy::queue {

std::vector<Webhook> SqliteTable::due_webhooks(int64_t now_ms, int limit) {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query(
        "SELECT id, job, type, body, attempts, due_ms FROM webhooks WHERE due_ms <= ? ORDER BY due_ms, id "
        "LIMIT ?",
        now_ms, limit);
    std::vector<Webhook> due;
    while (query.next())
      due.push_back({.id = query.text(0),
                     .job = query.text(1),
                     .type = query.text(2),
                     .body = query.text(3),
                     .attempts = static_cast<int>(query.integer(4)),
                     .due_ms = query.integer(5)});
    return due;
  });
}

void SqliteTable::webhook_sent(const std::string& id) {
  pool_.write([&](Sqlite& database) { database.change("DELETE FROM webhooks WHERE id = ?", id); });
}

void SqliteTable::webhook_later(const std::string& id, int64_t due_ms) {
  pool_.write([&](Sqlite& database) {
    database.change("UPDATE webhooks SET attempts = attempts + 1, due_ms = ? WHERE id = ?", due_ms, id);
  });
}

std::vector<Preset> SqliteTable::presets(const std::string& owner) {
  return pool_.read([&](Sqlite& database) {
    Query query =
        database.query("SELECT name, owner, fields FROM presets WHERE owner = ? ORDER BY name", owner);
    std::vector<Preset> presets;
    while (query.next())
      presets.push_back({.name = query.text(0), .owner = query.text(1), .fields = query.text(2)});
    return presets;
  });
}

void SqliteTable::save_preset(const Preset& preset, int64_t most) {
  pool_.write([&](Sqlite& database) {
    if (database.change("UPDATE presets SET fields = ? WHERE owner = ? AND name = ?", preset.fields,
                        preset.owner, preset.name) > 0)
      return;
    {
      Query query = database.query("SELECT count(*) FROM presets WHERE owner = ?", preset.owner);
      require(query.next() && query.integer(0) < most,
              "`name`: there are {} presets, and no more can be kept; remove one first", most);
    }
    database.change("INSERT INTO presets (owner, name, fields) VALUES (?, ?, ?)", preset.owner, preset.name,
                    preset.fields);
  });
}

bool SqliteTable::remove_preset(const std::string& owner, const std::string& name) {
  return pool_.write([&](Sqlite& database) {
    return database.change("DELETE FROM presets WHERE owner = ? AND name = ?", owner, name) > 0;
  });
}

void SqliteTable::add_usage(const std::string& owner, const std::string& model, const Usage& used) {
  pool_.write([&](Sqlite& database) { use(database, owner, model, 0, used, now_ms()); });
}

std::vector<UsageRow> SqliteTable::usage(const std::string* owner, int64_t first_day, int64_t last_day) {
  return pool_.read([&](Sqlite& database) {
    Query query = database.query(
        "SELECT owner, day, model, jobs, frames, pixels, seconds FROM usage "
        "WHERE day BETWEEN ? AND ? AND (? OR owner = ?) ORDER BY day, owner, model",
        first_day, last_day, owner == nullptr, owner ? *owner : std::string());
    std::vector<UsageRow> rows;
    while (query.next())
      rows.push_back({.owner = query.text(0),
                      .model = query.text(2),
                      .day = query.integer(1),
                      .jobs = query.integer(3),
                      .used = {query.integer(4), query.real(5), query.real(6)}});
    return rows;
  });
}

}  // namespace tachy::queue
