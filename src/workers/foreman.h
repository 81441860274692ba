// Runs the jobs of a table: picks the next one, opens its model, makes the video in the job's folder, and
// writes the end into the table. It interrupts a job for one of higher priority, or for a world, and lets it
// go on later with the same bits.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "jobs/job_spec.h"
#include "queue/event_book.h"
#include "queue/job_folder.h"
#include "queue/job_table.h"
#include "workers/models.h"
#include "workers/presence.h"

namespace tachy::workers {

struct ForemanOptions {
  std::filesystem::path files;   // the server's folder
  std::filesystem::path loras;   // the folder of LoRA files; "": none
  std::filesystem::path own;     // the folder of what is this process's alone; "": as `files`
  std::string worker = "local";  // this process's name in the table
  // Where several hosts share the queue: who else is there. It outlives the Foreman. Null: this server is alone.
  Presence* presence = nullptr;
  std::string files_id;  // of the folder of files, if hosts may share it
  bool runs = true;      // false: jobs are planned here, and run by other hosts
  // Brings the inputs of a job whose files another host has into the job's folder; may be empty.
  std::function<void(const queue::JobRow&, const queue::JobFolder&)> fetch_inputs;
  // Returns the finished video of a job whose files another host has, or "" while that host does not answer; may be
  // empty.
  std::function<std::filesystem::path(const queue::JobRow&)> fetch_video;
  // Stores a finished video elsewhere, too, before the table says that it is finished; may be empty.
  std::function<void(const queue::JobRow&, const queue::JobFolder&)> store;
  std::function<void(const std::string& id)> removed;  // removes it there; may be empty
  // Says whether the disk with the files has room for another job; empty: it is looked at (room.h).
  std::function<bool()> has_room;
  int at_once = 0;          // jobs that run beside one another on a card where they fit; 0: by the device
  double keep_days = 0;     // how long an ended job is kept; 0: for ever
  uint64_t keep_bytes = 0;  // how much all ended jobs together may take; 0: as much as there is
  // How long the previews of a job stay when it has ended; the last one stays as long as the job.
  double preview_seconds = 600;
  // Makes the message about the end of a job, if the server has a webhook; may be empty.
  std::function<std::optional<queue::Webhook>(const queue::JobRow&)> message;
  // Is told of every finished step, run and end, for metrics (metrics.h); may be empty.
  std::function<void(const nlohmann::json& event)> measured;
};

// The time and the memory that a job would take.
struct Outlook {
  uint64_t gpu_bytes = 0, host_bytes = 0;
  double seconds = 0;             // of computing
  double seconds_to_preview = 0;  // until the first preview
  int64_t queue_position = 0;     // how many would run before it
  double wait_seconds = 0;        // until it would begin
  bool world_open = false;        // nothing begins before the world that is open is closed
  bool fits = true;
  std::string reason;                                 // why it does not fit, with the limit
  nlohmann::json nearest = nlohmann::json::object();  // fields that would fit
  std::shared_ptr<const PreparedRequest> prepared;    // null if it does not fit
};

// The state of a job at this moment, as far as its row does not have it.
struct Live {
  std::string stage;            // "" if it does not run
  int64_t done = 0, total = 0;  // of the stage
  double eta_seconds = -1;      // until its end, waiting included; negative: unknown
  int64_t position = -1;        // in the queue, 0 is next; negative: it does not wait
  bool interrupted = false;     // it makes room for something else
  std::string why;              // why it waits, or why its worker has it
};

// The functions that the HTTP interface needs of whoever runs the jobs. Its tests put something in the
// Foreman's place.
class Runs {
 public:
  virtual ~Runs() = default;

  // Plans a job without running it. Throws for what is wrong with it: invalid_argument, unsupported,
  // not_found, which name the field in backticks. What is right but too large does not throw: `fits` is
  // false. Its place in the queue is that of a job of this owner which needs this in memory (as in JobRow).
  virtual Outlook outlook(const jobs::JobSpec& job, const std::string& model, int priority,
                          const std::string& owner = {}, const std::string& needs = {}) = 0;
  virtual bool ready(std::string* why = nullptr) const = 0;  // the default model can take a job
  // To be called after every change in the table: a new job, a wish, a changed order.
  virtual void wake() = 0;
  // Keeps a plan for the job's first run, so that it begins at once.
  virtual void remember(const std::string& id, std::shared_ptr<const PreparedRequest> prepared) = 0;
  // Stops computing the job, if it runs, and returns when its files are no longer written.
  virtual void stop_job(const std::string& id) = 0;
  virtual Live live(const queue::JobRow& row) const = 0;
  // Returns the same at once, or nothing if it would take time.
  virtual std::optional<Live> live_now(const queue::JobRow&) const { return std::nullopt; }
};

class Foreman : public Runs {
 public:
  Foreman(ForemanOptions options, queue::JobTable& table, queue::EventBook& book, Models& models);
  ~Foreman() override;  // as stop()

  Outlook outlook(const jobs::JobSpec& job, const std::string& model, int priority,
                  const std::string& owner = {}, const std::string& needs = {}) override;

  // Puts jobs that an earlier process left back into the queue, opens the default model, and begins.
  void start();
  bool ready(std::string* why = nullptr) const override;
  void wake() override;
  void remember(const std::string& id, std::shared_ptr<const PreparedRequest> prepared) override;
  void stop_job(const std::string& id) override;
  Live live(const queue::JobRow& row) const override;
  std::optional<Live> live_now(const queue::JobRow& row) const override;

  // Fills in what this host holds and does now: models, what is loaded, how many jobs run.
  void describe(HostAbout& about) const;

  // Makes room on the (first) device for a world: jobs under way there are interrupted within a second, and wait
  // until the handle is dropped, or go on on another card.
  std::shared_ptr<void> make_room();

  // Takes no further job, interrupts those under way with their states saved, and returns within a few
  // seconds.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::workers
