// Writes what running jobs report: their progress into the table and into their events, their previews as
// files. A thread of its own does so, since each is a write to the disk and a computing thread must not wait
// for it. Reports that come faster than they are written replace one another, except that every stage is told
// at least once, and when it begins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "queue/event_book.h"
#include "queue/job_folder.h"
#include "queue/job_table.h"

namespace tachy::workers {

struct ProgressNote {
  std::string stage;
  int64_t done = 0, total = 0;
  double eta_seconds = -1;
  int percent = 0;
};

struct PreviewNote {
  std::vector<uint8_t> rgb;  // [height, width, 3]
  int width = 0, height = 0, number = 0;
  queue::JobFolder folder;
};

class Reporter {
 public:
  Reporter(queue::JobTable& table, queue::EventBook& book, std::string worker);
  ~Reporter();  // drops what is not written yet
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void progress(const std::string& job, ProgressNote note);
  void preview(const std::string& job, PreviewNote note);
  // Returns when all that was reported of the job is written, and forgets it.
  void finish(const std::string& job);

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    std::deque<ProgressNote> notes;  // at most one of each stage that is not told yet, and the last one
    std::optional<PreviewNote> preview;
    Clock::time_point next{};  // when progress may be written again
    std::string told;          // the stage of the last progress that was written; another one does not wait
    int percent = -1;          // as in the table
    bool urgent = false, writing = false;
    bool empty() const { return notes.empty() && !preview; }
    bool due(Clock::time_point now) const {
      return preview || (!notes.empty() && (urgent || now >= next || notes.back().stage != told));
    }
  };
  void work();
  void write(const std::string& job, const std::deque<ProgressNote>& notes,
             const std::optional<PreviewNote>& preview, int& percent);
  void write_percent(const std::string& job, int now, int& percent);
  void write_preview(const std::string& job, const PreviewNote& preview);

  queue::JobTable& table_;
  queue::EventBook& book_;
  const std::string worker_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Pending> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tachy::workers
