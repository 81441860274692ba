// The table of jobs in SQLite. A change is a transaction, and on the disk when its function returns.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>

#include "queue/job_table.h"
#include "queue/row_cache.h"
#include "queue/sqlite_pool.h"

namespace tachy::queue {

struct SqliteOptions {
  int64_t keep_ms = 0;              // how long a job is kept that fails before anybody has it; 0: for ever
  std::function<int64_t()> now_ms;  // since 1970; the system's clock where it is empty
};

class SqliteTable : public JobTable {
 public:
  // Opens the file, or makes it. Throws io, and unsupported for the file of a newer version of this program.
  explicit SqliteTable(const std::filesystem::path& file, SqliteOptions options = {});

  int64_t now_ms() const override;
  Inserted insert(const JobRow& job, const std::string& idempotency, const std::string& fingerprint,
                  int64_t most_queued, int64_t most_of_owner) override;
  std::optional<JobRow> find(const std::string& id) override;
  std::shared_ptr<const JobRow> known(const std::string& id) override { return rows_.get(id); }
  Page list(const std::string* owner, const std::string& after, int limit, bool ascending) override;
  Page active(const std::string* owner, int limit) override;
  std::vector<WaitingJob> waiting() override;
  Counts counts() override;

  std::optional<JobRow> claim(const std::string& id, const std::string& worker) override;
  bool give_back(const std::string& id, const std::string& worker, bool paused) override;
  void progress(const std::string& id, const std::string& worker, int percent) override;
  bool end(const JobRow& ended, const std::string& worker, const std::optional<Webhook>& message) override;

  std::optional<JobRow> wish(const std::string& id, Wish wish,
                             const std::optional<Webhook>& message) override;
  std::optional<JobRow> set_paused(const std::string& id, bool paused) override;
  std::optional<JobRow> change(const std::string& id, const Change& change) override;
  bool remove(const std::string& id) override;
  std::optional<JobRow> fail_queued(const std::string& id, const JobError& error,
                                    const std::optional<Webhook>& message) override;

  std::optional<std::vector<HeldJob>> heartbeat(const std::string& worker) override;
  std::vector<JobRow> recover(const std::string& worker) override;
  std::vector<std::string> outdated(int64_t now_ms, uint64_t most_bytes) override;

  std::vector<Webhook> due_webhooks(int64_t now_ms, int limit) override;
  void webhook_sent(const std::string& id) override;
  void webhook_later(const std::string& id, int64_t due_ms) override;

  std::vector<Preset> presets(const std::string& owner) override;
  void save_preset(const Preset& preset, int64_t most) override;
  bool remove_preset(const std::string& owner, const std::string& name) override;

  void add_usage(const std::string& owner, const std::string& model, const Usage& used) override;
  std::vector<UsageRow> usage(const std::string* owner, int64_t first_day, int64_t last_day) override;

  uint64_t version() const override { return version_; }
  std::map<std::string, double> used_seconds() override;

 private:
  // pool_.write() of a change to this job ("": to any) that may change the order of the jobs that wait.
  template <class Body>
  auto write(const std::string& id, Body&& body) {
    const Bump bump{*this, id};
    return pool_.write(std::forward<Body>(body));
  }
  struct Bump {
    SqliteTable& table;
    const std::string& id;
    ~Bump() { ++table.version_, id.empty() ? table.rows_.drop_all() : table.rows_.drop(id); }
  };

  SqliteOptions options_;
  SqlitePool pool_;
  RowCache rows_;  // for known(): what find() has read. One process at a time has the file (FilesLock).
  std::atomic<uint64_t> version_{1};
};

}  // namespace tachy::queue
