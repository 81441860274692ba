// A job that runs in a thread of its own: from its row in the table to the finished file, or to where it was
// stopped. A JobRunner makes the video; this tells how far it is, and writes into the table what became of
// it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "jobs/job_sink.h"
#include "queue/job_folder.h"
#include "workers/foreman.h"
#include "workers/lease.h"
#include "workers/progress_meter.h"
#include "workers/reporter.h"

namespace tachy::workers {

// The things that all jobs of a Foreman work with.
struct Shop {
  const ForemanOptions& options;
  queue::JobTable& table;
  queue::EventBook& book;
  Models& models;
  Rates& rates;
  Reporter& reporter;
  const Lease& lease;
};

// Why a job is stopped. A later reason replaces an earlier one that is smaller.
enum class Stop {
  none,
  priority,   // something of higher priority wants to compute
  world,      // a world wants the device
  elsewhere,  // another host has the memory that it needs
  full,       // the disk is full
  shutdown,   // the server goes down
  pause,      // somebody has paused it
  keep,       // it is cancelled, but the frames that are there become its video
  cancel,
  removed,  // it is deleted
  lost,     // the lease on it is lost, and somebody else may have it
};

// Says whether such a job waits in the table, to go on later.
inline bool gives_back(Stop why) {
  return why == Stop::priority || why == Stop::world || why == Stop::elsewhere || why == Stop::full ||
         why == Stop::shutdown || why == Stop::pause;
}

class RunningJob final : private jobs::JobSink {
 public:
  // `row` was claimed for options.worker, to run on this card. `prepared` may be null; it is the plan of the card's own
  // engine. `changed` is called in the job's thread when it has left the device, and when the table knows of its end.
  RunningJob(const Shop& shop, queue::JobRow row, int card, std::shared_ptr<const PreparedRequest> prepared,
             std::function<void()> changed);
  ~RunningJob() override;  // waits for the thread

  void start();
  void stop(Stop why);  // returns at once
  Stop stopped() const { return why_.load(); }
  // Makes the job wait with all that it has, or go on. Returns false if it cannot be held.
  bool hold(bool held);
  bool held() const { return hold_.load(); }
  bool ended() const { return ended_.load(); }
  // Says that the job computes no more and holds none of the device's memory. The state of a stopped one, which
  // may be large, is still being written, or the thumbnail of a finished one, and nobody need wait for that.
  bool left() const { return left_.load(); }
  bool device_failed() const { return device_failed_.load(); }  // when it has ended
  bool too_large_here() const { return why_.load() == Stop::elsewhere; }
  // Notes that it shares the device with others, so that nothing is learnt from its times.
  void not_alone() { alone_ = false; }

  const queue::JobRow& row() const { return row_; }  // as it was claimed
  int card() const { return card_; }
  Live live() const;

 private:
  void run();
  void make();
  void make_video();
  bool had_frames() const;
  bool makes_no_more(const Progress& progress) const;
  void stop_keeping();
  void learn(const std::string& key, const VideoPlan& plan, double seconds);
  void stopped_or_failed(ErrorCode code, const std::string& message);
  void look_at_wish();
  void wait_for_former() const;
  void give_back(Stop why);
  bool hands_on();  // true if another host has more memory: the job then waits for it
  bool waits_for_room(ErrorCode code, const std::string& text);  // true if it goes on when the disk has room
  queue::Usage used(bool completed) const;
  void account_for_interruption() const;
  void end(queue::Status status, const queue::JobError& error, bool told);
  // Repeats a change of the table until the disk takes it, or the server goes down.
  bool insist(const std::function<bool()>& change);
  void measured(nlohmann::json event) const;
  void tell_run(const VideoPlan& plan, double seconds) const;

  // JobSink
  void event(const nlohmann::json& event, const std::string& text) override;
  void notice(const std::string& text) override;
  void progress(const Progress& progress) override;
  void end_of_progress() override {}
  void can_go_on(const std::string& text) override;
  void ran(const ResolvedRequest& run) override { seen_bytes_ = alone_ ? run.seen_bytes : 0; }
  void left_device() override;
  void finishing() override;
  void encoded(double seconds) override;
  bool wants_previews() const override { return true; }
  void preview(const RgbImage& picture, int step) override;

  const Shop shop_;
  queue::JobRow row_;
  const int card_;
  const queue::JobFolder folder_;
  std::shared_ptr<const PreparedRequest> prepared_;
  const std::function<void()> on_change_;
  // Somebody wished the frames kept that were there, and then the process died. They are made again from
  // the state, and nothing that would have to be denoised.
  const bool kept_late_;

  std::atomic<bool> cancel_ = false, ended_ = false, alone_ = true, patient_ = true, device_failed_ = false;
  std::atomic<bool> left_ = false;
  std::atomic<bool> hold_ = false, keep_ = false;
  std::atomic<Stop> why_ = Stop::none;

  // Seconds that pass while the job does not wait.
  double computing_seconds() const;

  mutable std::mutex mutex_;  // guards the next four
  double held_since_ = 0, held_seconds_ = 0;
  std::optional<ProgressMeter> meter_;
  Progress last_;

  // These belong to the job's thread.
  std::string going_on_, size_, last_stage_;
  double last_preview_ = 0, last_step_ = 0, begun_ = 0;
  int previews_ = 0;
  uint64_t seen_bytes_ = 0;  // 0: not known
  bool had_frames_ = false;  // with kept_late_: when the process died
  bool resumed_ = false;
  std::thread thread_;
};

}  // namespace tachy::workers
