#include "workers/reporter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "media/files.h"
#include "media/picture/jpeg.h"
#include "workers/after_run.h"

namespace tachy::workers {
namespace {

constexpr std::chrono::milliseconds kBetweenProgress{300};
constexpr int kPreviewQuality = 80;
// A run of days would otherwise leave a file for each of its seconds.
constexpr int kMostPreviews = 100;

double to_tenth(double seconds) { return seconds < 0 ? -1 : std::round(seconds * 10) / 10; }

}  // namespace

Reporter::Reporter(queue::JobTable& table, queue::EventBook& book, std::string worker)
    : table_(table), book_(book), worker_(std::move(worker)), thread_([this] { work(); }) {}

Reporter::~Reporter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Reporter::progress(const std::string& job, ProgressNote note) {
  {
    const std::lock_guard lock(mutex_);
    std::deque<ProgressNote>& notes = jobs_[job].notes;
    if (!notes.empty() && notes.back().stage == note.stage)
      notes.back() = std::move(note);
    else
      notes.push_back(std::move(note));
  }
  changed_.notify_all();
}

void Reporter::preview(const std::string& job, PreviewNote note) {
  {
    const std::lock_guard lock(mutex_);
    jobs_[job].preview = std::move(note);
  }
  changed_.notify_all();
}

void Reporter::finish(const std::string& job) {
  std::unique_lock lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  found->second.urgent = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return ending_ || (found->second.empty() && !found->second.writing); });
  jobs_.erase(found);
}

void Reporter::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto now = Clock::now();
    const auto due = std::ranges::find_if(jobs_, [&](const auto& job) { return job.second.due(now); });
    if (due == jobs_.end()) {
      auto next = Clock::time_point::max();
      for (const auto& [id, job] : jobs_)
        if (!job.notes.empty()) next = std::min(next, job.next);
      if (next == Clock::time_point::max())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, next);
      continue;
    }
    // The job cannot be erased while `writing`: finish() waits for it.
    Pending& job = due->second;
    const std::string id = due->first;
    const std::deque<ProgressNote> notes = std::exchange(job.notes, {});
    const std::optional<PreviewNote> preview = std::exchange(job.preview, std::nullopt);
    int percent = job.percent;
    if (!notes.empty()) job.told = notes.back().stage;
    job.writing = true;
    lock.unlock();
    write(id, notes, preview, percent);
    lock.lock();
    job.writing = false, job.percent = percent, job.next = Clock::now() + kBetweenProgress;
    changed_.notify_all();
  }
}

// While the table is away, whoever listens still gets the events.
void Reporter::write_percent(const std::string& job, int now, int& percent) try {
  table_.progress(job, worker_, now);
  percent = now;
} catch (const std::exception& e) {
  warn("{}: its progress is not in the table: {}", job, e.what());
}

// A report that cannot be written is lost, but the job goes on: the next one is as good.
void Reporter::write(const std::string& job, const std::deque<ProgressNote>& notes,
                     const std::optional<PreviewNote>& preview, int& percent) try {
  if (!notes.empty() && notes.back().percent > percent) write_percent(job, notes.back().percent, percent);
  for (const ProgressNote& note : notes)
    book_.add(job, "progress",
              {{"stage", note.stage},
               {"done", note.done},
               {"total", note.total},
               {"eta_seconds", to_tenth(note.eta_seconds)},
               {"progress", note.percent}});
  if (preview) write_preview(job, *preview);
} catch (const std::exception& e) {
  warn("{}: a report is lost: {}", job, e.what());
}

void Reporter::write_preview(const std::string& job, const PreviewNote& preview) {
  std::vector<uint8_t> jpeg;
  JpegEncoder(kPreviewQuality)
      .encode({preview.rgb.data(), preview.width, preview.height, int64_t{preview.width} * 3}, jpeg);
  PartFile file(preview.folder.preview(preview.number));
  file.write(jpeg);
  file.publish();
  if (preview.number > kMostPreviews) keep_previews(preview.folder, kMostPreviews);
  book_.add(job, "preview",
            {{"url", "/v1/videos/" + job + "/previews/" + std::to_string(preview.number)},
             {"number", preview.number}});
}

}  // namespace tachy::workers
