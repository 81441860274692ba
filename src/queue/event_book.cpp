// The last events of a job are kept in memory, the earlier ones are read from its file. Jobs that nobody
// listens to are forgotten in the order in which they were last used; their files bring them back.
#include "queue/event_book.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/disk.h"
#include "base/json_text.h"
#include "queue/event_file.h"
#include "queue/event_listener.h"
#include "queue/job_folder.h"

namespace tachy::queue {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{200};
constexpr size_t kKeptEvents = 64, kKeptJobs = 256, kKeptGone = 4096;

// Ids are ours, but what is not one must not become a path.
bool is_safe(const std::string& job) {
  return !job.empty() && job.size() <= 100 && std::all_of(job.begin(), job.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

}  // namespace

struct JobEvents {
  JobEvents(const std::filesystem::path& path, bool is_shared) : file(path, is_shared), shared(is_shared) {}
  // Locks the job's events, and reads the file the first time, or what others have added to it.
  std::unique_lock<std::mutex> locked() {
    std::unique_lock lock(mutex);
    if (!read || shared)
      for (Event& event : std::exchange(read, true) ? file.added() : file.read()) note(std::move(event));
    return lock;
  }
  void note(Event event) {
    last = event.number;
    ended |= event.type == "done" || event.type == "failed";
    tail.push_back(std::move(event));
    if (tail.size() > kKeptEvents) tail.pop_front();
  }

  std::mutex mutex;
  EventFile file;
  std::deque<Event> tail;
  int64_t last = 0;
  const bool shared;
  bool read = false, ended = false, gone = false;
  int64_t told = 0;  // the last event for which listeners were woken
  EventListeners listeners;
};

struct EventBook::State {
  struct Kept {
    std::shared_ptr<JobEvents> events;
    std::list<std::string>::iterator used;
  };

  // Returns null for a job that is gone.
  std::shared_ptr<JobEvents> find(const std::string& job) {
    if (!is_safe(job)) return nullptr;
    const std::lock_guard lock(mutex);
    if (gone.contains(job)) return nullptr;
    if (const auto it = jobs.find(job); it != jobs.end()) {
      used.splice(used.begin(), used, it->second.used);
      return it->second.events;
    }
    auto events = std::make_shared<JobEvents>(JobFolder(files, job).events(), shared);
    used.push_front(job);
    jobs[job] = {events, used.begin()};
    drop_unused();
    return events;
  }
  // Looks at a few of the jobs that were used the longest ago. Those that somebody holds are put to the
  // front.
  void drop_unused() {
    for (int tries = 0; tries < 8 && jobs.size() > kKeptJobs; ++tries) {
      const auto it = jobs.find(used.back());
      if (it->second.events.use_count() > 1) {
        used.splice(used.begin(), used, it->second.used);
        continue;
      }
      used.pop_back();
      jobs.erase(it);
    }
  }
  std::shared_ptr<JobEvents> forget(const std::string& job) {
    const std::lock_guard lock(mutex);
    if (gone.insert(job).second) gone_order.push_back(job);
    if (gone_order.size() > kKeptGone) gone.erase(gone_order.front()), gone_order.pop_front();
    const auto it = jobs.find(job);
    if (it == jobs.end()) return nullptr;
    auto events = it->second.events;
    used.erase(it->second.used);
    jobs.erase(it);
    return events;
  }

  // Wakes those who listen to jobs to which another host has added something.
  void watch() {
    std::unique_lock lock(mutex);
    while (!ending) {
      std::vector<std::shared_ptr<JobEvents>> heard;
      for (const auto& [job, kept] : jobs)
        if (kept.events.use_count() > 1) heard.push_back(kept.events);
      lock.unlock();
      for (; !heard.empty(); heard.pop_back()) wake_listeners(*heard.back());
      lock.lock();
      changed.wait_for(lock, kBetweenLooks, [&] { return ending; });
    }
  }
  static void wake_listeners(JobEvents& events) {
    EventListeners listeners;
    {
      const auto guard = events.locked();
      if (events.listeners.empty() || events.told == events.last) return;
      events.told = events.last;
      listeners = events.listeners;
    }
    for (const auto& listener : listeners) listener->call();
  }

  std::filesystem::path files;
  bool shared = false, ending = false;
  std::condition_variable changed;
  std::thread watcher;  // only where the files are shared
  std::mutex mutex;
  std::unordered_map<std::string, Kept> jobs;
  std::list<std::string> used;  // the latest first
  std::unordered_set<std::string> gone;
  std::deque<std::string> gone_order;
};

EventBook::EventBook(std::filesystem::path files, bool shared) : state_(std::make_unique<State>()) {
  state_->files = std::move(files), state_->shared = shared;
  if (shared) state_->watcher = std::thread([state = state_.get()] { state->watch(); });
}

EventBook::~EventBook() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  lock.unlock();
  state_->changed.notify_all();
  if (state_->watcher.joinable()) state_->watcher.join();
}

void EventBook::add(const std::string& job, const std::string& type, const nlohmann::json& data) {
  const auto events = state_->find(job);
  if (!events) return;
  EventListeners listeners;
  {
    const os::File whole = events->file.locked();
    const auto lock = events->locked();
    if (events->gone || events->ended) return;
    Event event{events->last + 1, type, json_line(data)};
    events->file.append(event);  // an event that is not on the disk is in memory all the same
    events->note(std::move(event));
    events->told = events->last;
    listeners = events->listeners;
  }
  for (const auto& listener : listeners) listener->call();
}

std::vector<Event> EventBook::since(const std::string& job, int64_t number) {
  const auto events = state_->find(job);
  if (!events) return {};
  const auto lock = events->locked();
  if (events->gone) return {};
  std::vector<Event> found;
  if (!events->tail.empty() && events->tail.front().number > std::max<int64_t>(number, 0) + 1)
    found = events->file.after(number);
  std::erase_if(
      found, [&](const Event& e) { return e.number <= number || e.number >= events->tail.front().number; });
  for (const Event& event : events->tail)
    if (event.number > number) found.push_back(event);
  return found;
}

int64_t EventBook::last(const std::string& job) {
  const auto events = state_->find(job);
  if (!events) return 0;
  const auto lock = events->locked();
  return events->last;
}

std::optional<Event> EventBook::latest(const std::string& job, const std::string& type) {
  const auto events = state_->find(job);
  if (!events) return std::nullopt;
  const auto lock = events->locked();
  for (auto it = events->tail.rbegin(); it != events->tail.rend(); ++it)
    if (it->type == type) return *it;
  return std::nullopt;
}

bool EventBook::ended(const std::string& job) {
  const auto events = state_->find(job);
  if (!events) return true;
  {
    const auto lock = events->locked();
    if (events->ended || events->gone) return true;
  }
  return !is_folder(JobFolder(state_->files, job).path);
}

std::shared_ptr<void> EventBook::listen(const std::string& job, std::function<void()> wake) {
  const auto events = state_->find(job);
  if (!events) return std::make_shared<int>(0);
  auto listener = std::make_shared<EventListener>();
  listener->wake = std::move(wake);
  {
    const auto lock = events->locked();
    events->listeners.push_back(listener);
  }
  return std::shared_ptr<void>(listener.get(), [events, listener](void*) {
    listener->drop();
    const auto lock = events->locked();
    std::erase(events->listeners, listener);
  });
}

void EventBook::forget(const std::string& job) {
  const auto events = state_->forget(job);
  if (!events) return;
  EventListeners listeners;
  {
    const auto lock = events->locked();
    events->gone = true;
    listeners = events->listeners;
  }
  for (const auto& listener : listeners) listener->call();
}

}  // namespace tachy::queue
