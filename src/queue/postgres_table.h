// The table of jobs in PostgreSQL, which several hosts share. A job is claimed by whoever updates its row
// first; a row that somebody has locked is passed over. Times are the database's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "postgres/listener.h"
#include "postgres/pool.h"
#include "queue/job_table.h"
#include "queue/polled_rows.h"

namespace tachy::queue {

class PostgresWakes;

struct PostgresOptions {
  int64_t keep_ms = 0;  // how long a job is kept that fails before anybody has it; 0: for ever
  double lease_seconds = 30;
  double patience_seconds = 30;       // how long a database that cannot be reached is tried at the start
  int64_t message_ms = 120'000;       // for how long due_webhooks() hands a message to nobody else
  std::string schema = "tachyscope";  // letters, digits and "_"
  std::function<int64_t()> now_ms;    // for tests; the database's clock where it is empty
};

class PostgresTable : public JobTable {
 public:
  // Opens the database and makes its tables, or brings them to today's version. Throws invalid_argument for
  // an address that cannot be read, io, and unsupported for the tables of a newer version of this program.
  explicit PostgresTable(const std::string& address, PostgresOptions options = {});
  ~PostgresTable() override;

  int64_t now_ms() const override;
  Inserted insert(const JobRow& job, const std::string& idempotency, const std::string& fingerprint,
                  int64_t most_queued, int64_t most_of_owner) override;
  std::optional<JobRow> find(const std::string& id) override;
  std::shared_ptr<const JobRow> known(const std::string& id) override;
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

  double lease_seconds() const override { return options_.lease_seconds; }
  void enlist(const std::string& worker) override;
  std::optional<std::vector<HeldJob>> heartbeat(const std::string& worker) override;
  std::vector<JobRow> recover(const std::string& worker) override;
  std::vector<JobRow> recover_lost() override;
  std::shared_ptr<void> listen(std::function<void()> wake) override;
  std::vector<std::string> outdated(int64_t now_ms, uint64_t most_bytes) override;

  std::vector<Webhook> due_webhooks(int64_t now_ms, int limit) override;
  void webhook_sent(const std::string& id) override;
  void webhook_later(const std::string& id, int64_t due_ms) override;

  std::vector<Preset> presets(const std::string& owner) override;
  void save_preset(const Preset& preset, int64_t most) override;
  bool remove_preset(const std::string& owner, const std::string& name) override;

  void announce(const HostRow& host) override;
  void depart(const HostRow& host) override;
  std::vector<HostRow> hosts() override;
  void placed(const std::string& id, const std::string& worker, const std::string& files,
              const std::string& why) override;
  void add_usage(const std::string& owner, const std::string& model, const Usage& used) override;
  std::vector<UsageRow> usage(const std::string* owner, int64_t first_day, int64_t last_day) override;

  uint64_t version() const override;
  std::map<std::string, double> used_seconds() override;

  postgres::Pool& pool() { return pool_; }

 private:
  // Returns the time for a statement: nothing stands for the database's clock (clock_ms).
  std::optional<int64_t> at() const;
  std::vector<JobRow> put_back(postgres::Connection& connection, const std::string& worker);
  // Tells all other processes, when the change is committed, that a job may begin; or the one with this
  // worker that something is wished of its job.
  void tell(postgres::Connection& connection, const std::string& worker = "") const;
  void hear(const std::string& message);
  bool may_take_more_than(uint64_t most_bytes, int64_t now_ms);
  std::vector<std::string> changed(const std::vector<PolledRows::Seen>& rows);
  // Ends a change to this job that may change the order of the jobs that wait.
  struct Bump {
    PostgresTable& table;
    const std::string& id;
    ~Bump() { ++table.version_, table.rows_.drop(id); }
  };

  PostgresOptions options_;
  postgres::Pool pool_;
  const std::string channel_;
  mutable std::atomic<uint64_t> version_{1};
  std::atomic<int64_t> hosts_{1}, queued_{0};   // as they were last seen
  mutable std::atomic<int64_t> version_ms_{0};  // when it was last raised without a reason
  std::mutex counts_mutex_;
  Counts counts_;
  int64_t counts_until_ms_ = 0;
  // The bytes of jobs that had ended until then, but for removals since they were counted.
  struct Taken {
    uint64_t bytes = 0;
    int64_t until_ms = 0, counted_ms = 0;
  };
  std::mutex taken_mutex_;
  Taken taken_;
  const std::shared_ptr<PostgresWakes> wakes_;
  PolledRows rows_;  // for known(): what find() has read
  std::unique_ptr<postgres::Listener> listener_;
};

}  // namespace tachy::queue
