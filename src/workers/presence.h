// Which hosts share the queue, and what each of them holds and can. A host announces itself every few seconds in the
// table, and keeps what it has read there of the others, so that nobody who places a job or answers a client waits for
// that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "queue/job_table.h"

namespace tachy::workers {

// How far a job is that a host runs, for others that have not got its events.
struct JobAbout {
  std::string stage;
  int64_t done = 0, total = 0;  // of the stage
  double eta_seconds = -1;      // when the host said it; negative: unknown
};

// A host's own words, as JSON in HostRow::about. Members that a newer version adds are ignored by an older one.
struct HostAbout {
  std::string role = "both", version, device;  // role: api, worker, both
  int cards = 0;                               // GPUs that it computes on
  uint64_t memory_bytes = 0;                   // of the GPU, or else of the machine, that a run may take
  std::vector<std::string> models, loras;      // by their names
  std::vector<std::string> loaded;             // the `needs` in memory, the latest first
  int at_once = 1, running = 0;                // how many jobs may run beside one another, and do
  bool full = false;                           // its disk has no room, so it begins no job
  std::map<std::string, double> step_seconds;  // of denoising, by "MODEL SIZE"
  std::map<std::string, JobAbout> jobs;        // that compute, by their ids
  bool takes_jobs() const { return role != "api"; }
};
std::string to_text(const HostAbout& about);
HostAbout about_of(const std::string& text);  // what is missing or of another kind keeps its default

struct Host {
  queue::HostRow row;
  HostAbout about;
};

class Presence {
 public:
  // `self` is asked before each announcement. The first one is made by start(), so that it throws if the table cannot
  // be written.
  Presence(queue::JobTable& table, std::function<Host()> self);
  ~Presence();  // as stop()
  void start();
  void stop();  // and says that this host is gone

  std::vector<Host> hosts() const;  // that are alive, this one among them, by their names
  // Returns the hosts that have this folder of files, also those that are gone: the living ones first.
  std::vector<Host> with_files(const std::string& files) const;
  // Returns how far a job of another host was when that one was heard of last; the seconds left are those of now.
  std::optional<JobAbout> job_of(const std::string& host, const std::string& id);
  Host self() const { return self_(); }
  void announce_now();  // something has changed that others should know soon
  // Reads of the others again, for a caller who misses one: a host that has just begun is known after seconds otherwise.
  // Returns false if the table is away.
  bool look_again();

 private:
  void announce();
  void read();
  void refresh_jobs();
  void run();

  queue::JobTable& table_;
  const std::function<Host()> self_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Host> hosts_;
  std::chrono::steady_clock::time_point read_{};    // when they were
  std::chrono::steady_clock::time_point looked_{};  // when somebody last read them to see how far a job is
  queue::HostRow announced_;                        // as it was last
  bool ending_ = false, urgent_ = false;
  std::thread thread_;
};

// Seconds of a denoising step by model and size, from the events that ForemanOptions::measured gets: a mean in which
// older steps count less.
class StepTimes {
 public:
  void measured(const nlohmann::json& event);
  std::map<std::string, double> means() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> means_;
};

}  // namespace tachy::workers
