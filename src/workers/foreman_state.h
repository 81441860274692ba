// The parts of a Foreman. Private to src/workers.
//
// One thread, the dispatcher, decides: it begins jobs, stops them and removes outdated ones. Everybody else
// rings the bell, after which it looks at the table. A job runs in a thread of its own (running_job.h), which
// rings at its end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "queue/turn_queue.h"
#include "workers/crashes.h"
#include "workers/errands.h"
#include "workers/foreman.h"
#include "workers/lease.h"
#include "workers/places_told.h"
#include "workers/plan_ahead.h"
#include "workers/plan_cache.h"
#include "workers/rates.h"
#include "workers/reporter.h"
#include "workers/running_job.h"

namespace tachy::workers {

// Outlives the Foreman, for threads and handles that ring late.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
  bool woken = false, stopping = false;
  int rooms = 0;  // handles of make_room() that are held

  void ring() {
    {
      const std::lock_guard lock(mutex);
      woken = true;
    }
    rung.notify_all();
  }
};

// Plans that were made before their jobs begin. The oldest are dropped: they are made again when they are
// needed.
class Plans {
 public:
  // `settings` are those of the row, so that a job that is changed afterwards does not get this plan.
  void put(const std::string& id, std::string settings, std::shared_ptr<const PreparedRequest> prepared);
  std::shared_ptr<const PreparedRequest> get(const std::string& id, const std::string& settings);
  void drop(const std::string& id);

 private:
  struct Plan {
    std::string id, settings;
    std::shared_ptr<const PreparedRequest> prepared;
  };
  std::mutex mutex_;
  std::list<Plan> plans_;  // the newest at the end
};

struct Foreman::State {
  State(ForemanOptions options, queue::JobTable& table, queue::EventBook& book, Models& models);

  using Jobs = std::map<std::string, std::shared_ptr<RunningJob>>;
  struct Taken;  // what jobs have of a card

  void recover();
  void recover_lost();
  void take_up(std::vector<queue::JobRow> rows, CrashMark::Death death);
  void fail_crashed(queue::JobRow row);
  void open_default();
  void dispatch();  // the dispatcher's function
  void look();      // one round of it
  bool reap();      // forgets jobs that have ended; true if there were any
  bool keeps_lease(const Jobs& jobs);
  void obey(const Jobs& jobs);  // what was asked of the jobs that run
  void put_back(const queue::HeldJob& job);
  void release();  // jobs whose videos are there may begin (awaited.h)
  bool releases(const queue::WaitingJob& job) const;
  // These return whether they have changed the job.
  bool look_at_sources(const queue::WaitingJob& job, const std::set<std::string>& waiting);
  bool give_up(const std::string& id, const queue::JobError& error);  // a queued one
  // An errand: gives the job its inputs, and lets it begin. Returns false if that is to be tried again.
  bool release(const std::string& id, const std::vector<queue::JobRow>& sources);
  bool release_if_possible(const std::string& id, const std::vector<queue::JobRow>& sources);
  void tell_places();
  void tell_place(const queue::WaitingJob& job, size_t position, double start_seconds);
  // Lets held jobs go on, and where any may begin, begins some and stops others for them.
  void fill(bool may_begin);
  // Ends a hold if nothing better is to do.
  bool go_on(const Jobs& jobs, const queue::WaitingJob* next);
  // The first waiting job that is this host's to take, with the reason; job is null if there is none.
  struct Choice {
    const queue::WaitingJob* job = nullptr;
    std::string why;
  };
  Choice choose(const std::vector<queue::TurnQueue::Next>& order) const;
  // Returns the card on which the job may begin now; nothing: on none, but a job may have been told to make way.
  std::optional<int> place_for(const queue::WaitingJob& job, const Jobs& jobs);
  std::optional<int> free_place(const queue::WaitingJob& job, const std::vector<Taken>& taken);
  std::optional<int> made_place(const queue::WaitingJob& job, const std::vector<Taken>& taken);
  std::vector<Taken> taken_of(const Jobs& jobs) const;  // by cards
  bool takes_jobs(int card) const;                      // neither a world has it, nor has it failed
  bool world_wants_room() const;
  void count_failure(int card, bool failed);
  // Says whether the job fits into the card's memory beside those that are there; nothing: it is being planned.
  std::optional<bool> fits_beside(const std::string& id, int card);
  void plan_ahead(const queue::JobRow& row, const std::atomic<bool>& cancel);
  enum class Begun { yes, taken_elsewhere, not_now };
  Begun begin(const queue::WaitingJob& job, const std::string& why, int card);
  // The seconds until places of other hosts are free, as far as is known here, are added to this host's.
  void add_other_places(std::vector<double>& busy) const;
  // The seconds until the jobs end that run elsewhere and that others wait for.
  void add_other_ends(queue::TurnQueue::Ends& ends);
  bool room_on_disk();     // also says so when that has changed
  bool is_teller() const;  // among hosts that share a queue, one tells of places
  bool runs_elsewhere(const queue::JobRow& row) const;
  Live live_elsewhere(const queue::JobRow& row) const;  // of a job that does not run here and has no turn
  Live explained(const queue::JobRow& row, Live live) const;  // of one that has: with the reason why it waits
  void note_loaded(const std::string& needs, int card);
  void sweep();
  void drop_previews();
  void stop();
  void end_lease();

  Jobs jobs_now() const;
  std::optional<Live> live_running(const queue::JobRow& row) const;  // nothing if it does not run
  int at_once() const;                                               // on each card
  int places() const { return at_once() * models.cards(); }
  bool gone(const std::string& id) const;  // neither runs nor begins; the bell's mutex is held

  const ForemanOptions options;
  queue::JobTable& table;
  queue::EventBook& book;
  Models& models;
  Rates rates;
  Reporter reporter;
  Lease lease;
  const Shop shop;
  const std::shared_ptr<Bell> bell = std::make_shared<Bell>();
  Plans plans;
  PlanCache asked;  // what callers have asked for
  queue::TurnQueue turns;
  std::atomic<uint64_t> memory{0};  // the largest peak that a run may have here; 0: not known yet
  std::optional<CrashMark> mark;
  std::atomic<bool> full{false};           // the disk has no room for another job
  std::atomic<bool> release_again{false};  // something that could not be released may be now

  // Guarded by the bell's mutex.
  Jobs running;
  std::map<std::string, int> beginning;  // those that are being claimed, with their cards
  std::string not_ready = "the server is starting";
  std::vector<std::string> holds;  // a copy of `loaded`

  // The dispatcher's own.
  struct Card {
    std::string holds;      // what the job needed that began there last
    std::string too_large;  // a job that did not fit beside those that run there
    int failures = 0;       // of the device, in a row
  };
  std::vector<Card> cards = std::vector<Card>(static_cast<size_t>(models.cards()));
  std::set<std::string> refused;    // jobs for which this host has not got the memory, and another one has
  std::set<std::string> lost;       // jobs that others took first, since the last look
  std::vector<std::string> loaded;  // what jobs needed that began lately, the last one first
  PlacesTold told;
  int64_t swept_ms = 0;
  uint64_t released_version = 0;  // of the table when nothing more could be released
  std::chrono::steady_clock::time_point looked_for_lost{};
  std::shared_ptr<void> heard;                             // a handle of JobTable::listen
  std::vector<std::pair<int64_t, std::string>> previewed;  // when jobs ended whose previews are still there
  std::thread dispatcher, opener;
  std::optional<PlanAhead> ahead;
  std::optional<Errands> errands;
};

}  // namespace tachy::workers
