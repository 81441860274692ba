// The table of jobs, which alone decides what exists and who has it: in SQLite for one server
// (sqlite_table.h), or in PostgreSQL for several hosts (postgres_table.h). All functions may be called from
// any thread. Every change is on the disk when its function returns, and is one transaction. They throw io
// when the disk or the database fails. A change that threw was not made, or it is found made when it is
// tried again.
//
// Workers of several hosts have leases on their jobs. A worker enlists, then beats every few seconds. When it
// has not been heard of for lease_seconds(), any other one may take its jobs, and it must write nothing more.
// A table that belongs to one server has no leases: there a worker keeps its jobs until recover().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "queue/job_row.h"

namespace tachy::queue {

// The result of insert().
struct Inserted {
  enum class How { made, repeated, mismatch, queue_full, owner_full } how;
  JobRow row;  // the new row, or the earlier one of the same idempotency key
};

// Values to change in a job that is still queued; those that are left out stay.
struct Change {
  std::optional<std::string> model, needs, request, settings, facts, awaits;
  std::optional<int> priority;
  std::optional<double> planned_seconds;
  std::optional<std::string>
      before;  // the id of the queued job in front of which this one goes; "": to the end
  // Throws if the job is no longer the one that the values were made for. It is asked within the change, when
  // nobody else can change the job any more; may be empty.
  std::function<void(const JobRow&)> expect;
};

// A job that a worker has, with what is wished of it.
struct HeldJob {
  std::string id;
  Wish wish = Wish::none;
};

class JobTable {
 public:
  virtual ~JobTable() = default;

  // Returns the table's own time, in milliseconds since 1970. Nothing else is compared with times of rows:
  // the clocks of several hosts may differ. Never throws.
  virtual int64_t now_ms() const = 0;

  // Adds a queued job. `idempotency` is the caller's key, or ""; `fingerprint` identifies the request's
  // content: an earlier job of the same owner and key within 24 hours is returned if its fingerprint is the
  // same. At most `most_queued` jobs wait in all, and `most_of_owner` of one owner (0: no limit of its own).
  virtual Inserted insert(const JobRow& job, const std::string& idempotency, const std::string& fingerprint,
                          int64_t most_queued, int64_t most_of_owner) = 0;
  virtual std::optional<JobRow> find(const std::string& id) = 0;
  // Returns the row as find() would, but at once, from memory; null if it is not there or may be outdated.
  virtual std::shared_ptr<const JobRow> known(const std::string&) { return nullptr; }
  // Returns jobs by their creation, the newest first unless `ascending`, after the job `after` ("": from the
  // start). `owner` is null for the jobs of all. Throws not_found for an unknown `after`.
  virtual Page list(const std::string* owner, const std::string& after, int limit, bool ascending) = 0;
  // Returns jobs that have not ended: those under way, then those that wait, in the order of waiting().
  virtual Page active(const std::string* owner, int limit) = 0;
  virtual std::vector<WaitingJob> waiting() = 0;  // in the order of priority, place, creation
  virtual Counts counts() = 0;

  // queued -> in_progress, unless it is paused, waits for other jobs, or somebody was faster.
  virtual std::optional<JobRow> claim(const std::string& id, const std::string& worker) = 0;
  // in_progress -> queued, for a job that is interrupted and goes on later; `paused` holds it there, and so
  // does a wish to pause it that came meanwhile. Returns false if the worker no longer has the job, or if
  // somebody wishes it cancelled: the worker then ends it.
  virtual bool give_back(const std::string& id, const std::string& worker, bool paused) = 0;
  // Raises the progress of a job under way; a smaller value changes nothing.
  virtual void progress(const std::string& id, const std::string& worker, int percent) = 0;
  // in_progress (of this worker) -> completed or failed; `message` is sent on, if the server has a webhook.
  // Returns false if the worker no longer has the job: it must then write nothing more.
  virtual bool end(const JobRow& ended, const std::string& worker, const std::optional<Webhook>& message) = 0;

  // A job under way gets the wish; a queued one that is cancelled fails at once with the code `cancelled`
  // (`message` is then sent on). Returns the row afterwards; a job that has ended is returned as it is.
  virtual std::optional<JobRow> wish(const std::string& id, Wish wish,
                                     const std::optional<Webhook>& message) = 0;
  virtual std::optional<JobRow> set_paused(const std::string& id, bool paused) = 0;  // of a queued job
  // Returns nothing if the job is not queued any more, or is unknown. Throws what `expect` throws, and has then
  // changed nothing.
  virtual std::optional<JobRow> change(const std::string& id, const Change& change) = 0;
  virtual bool remove(const std::string& id) = 0;
  // queued -> failed, with its message. Returns the row, or nothing if the job is not queued any more.
  virtual std::optional<JobRow> fail_queued(const std::string& id, const JobError& error,
                                            const std::optional<Webhook>& message) = 0;

  // Returns for how many seconds a heartbeat keeps a worker's jobs; 0: it keeps them without one.
  virtual double lease_seconds() const { return 0; }
  // Begins the lease of a worker, which has no jobs yet. No other process may have this name.
  virtual void enlist(const std::string& worker) {}
  // Renews the lease and returns the jobs that the worker has, or nothing if the lease is lost: its jobs are
  // somebody else's now. It then stops them before they write anything more, and enlists again.
  virtual std::optional<std::vector<HeldJob>> heartbeat(const std::string& worker) = 0;
  // Puts the jobs that this worker had when it died back into the queue, ends its lease, and returns them.
  // One that was to be cancelled keeps its wish: wish() then ends it with its message. So does one whose
  // frames are to be kept: claim() hands it out with the wish.
  virtual std::vector<JobRow> recover(const std::string& worker) = 0;
  // Does the same for all workers whose leases have ended. Any host may call it, several at the same time,
  // too.
  virtual std::vector<JobRow> recover_lost() { return {}; }
  // `wake` is called in any thread when another process has changed something that a worker or a client waits
  // for, until the returned handle is dropped. Messages may be lost: whoever waits also looks now and then.
  virtual std::shared_ptr<void> listen(std::function<void()> wake) { return nullptr; }
  // Returns ended jobs to be removed: those that have expired, and the oldest ones while all together are
  // larger than `most_bytes` (0: no limit).
  virtual std::vector<std::string> outdated(int64_t now_ms, uint64_t most_bytes) = 0;

  virtual std::vector<Webhook> due_webhooks(int64_t now_ms, int limit) = 0;
  virtual void webhook_sent(const std::string& id) = 0;
  virtual void webhook_later(const std::string& id, int64_t due_ms) = 0;

  virtual std::vector<Preset> presets(const std::string& owner) = 0;
  virtual void save_preset(const Preset& preset,
                           int64_t most) = 0;  // throws invalid_argument beyond `most` of one owner
  virtual bool remove_preset(const std::string& owner, const std::string& name) = 0;

  // Says that this host is there, and returns all that were ever heard of within a day. A table that belongs to one
  // server has none.
  virtual void announce(const HostRow& host) {}
  // Says that this host is gone, so that its name is free at once.
  virtual void depart(const HostRow& host) {}
  virtual std::vector<HostRow> hosts() { return {}; }
  // Notes where the files of a job under way are, and why this worker has taken it.
  virtual void placed(const std::string& id, const std::string& worker, const std::string& files,
                      const std::string& why) {}

  // Adds to what an owner has used of a model, without counting a job: for a run that was interrupted.
  virtual void add_usage(const std::string& owner, const std::string& model, const Usage& used) {}
  // Returns the usage of these days, both included, by day, owner and model; of all owners if `owner` is null.
  virtual std::vector<UsageRow> usage(const std::string* owner, int64_t first_day, int64_t last_day) {
    return {};
  }

  // Changes whenever the jobs that wait, or the seconds that owners have used, may have changed: what was
  // computed from them stays true while it is the same. Here it changes with each call, so that nothing is
  // kept.
  virtual uint64_t version() const {
    static std::atomic<uint64_t> calls{0};
    return ++calls;
  }
  // The planned seconds that each owner's jobs were charged when they were first taken, with older ones
  // counted less and less (policy.h).
  virtual std::map<std::string, double> used_seconds() { return {}; }
};

}  // namespace tachy::queue
