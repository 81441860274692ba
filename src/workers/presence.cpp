#include "workers/presence.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"

namespace tachy::workers {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kBetweenAnnouncements{5};
constexpr std::chrono::milliseconds kBetweenUrgent{
    200};  // announcements of a host that is busy with short jobs
// All hosts together read one another's words within a share of the database, however many there are. A row takes
// about 3 us there (bench/notes/postgres.md).
constexpr std::chrono::milliseconds kBetweenReadsForAHost{30};
constexpr std::chrono::milliseconds kBetweenSecondLooks{100};
// A client who asks how far a job of another host is gets words of about this age, as those of a job of this host.
constexpr std::chrono::milliseconds kBetweenLooksAtJobs{300};
constexpr size_t kMostSteps = 64;    // models and sizes of which times are told
constexpr double kNewestStep = 0.1;  // its share of the mean

template <class T>
void read_member(const json& from, const char* key, T& to) {
  const auto it = from.find(key);
  if (it == from.end()) return;
  try {
    to = it->get<T>();
  } catch (const json::exception&) {  // a version that writes it otherwise
  }
}

json to_json(const std::map<std::string, JobAbout>& jobs) {
  json out = json::object();
  for (const auto& [id, job] : jobs)
    out[id] = {
        {"stage", job.stage}, {"done", job.done}, {"total", job.total}, {"eta_seconds", job.eta_seconds}};
  return out;
}

void read_jobs(const json& from, std::map<std::string, JobAbout>& to) {
  const auto it = from.find("jobs");
  if (it == from.end() || !it->is_object()) return;
  for (const auto& [id, words] : it->items()) {
    if (!words.is_object()) continue;
    JobAbout& job = to[id];
    read_member(words, "stage", job.stage), read_member(words, "eta_seconds", job.eta_seconds);
    read_member(words, "done", job.done), read_member(words, "total", job.total);
  }
}

}  // namespace

std::string to_text(const HostAbout& a) {
  return json_line({{"role", a.role},
                    {"version", a.version},
                    {"device", a.device},
                    {"cards", a.cards},
                    {"memory_bytes", a.memory_bytes},
                    {"models", a.models},
                    {"loras", a.loras},
                    {"loaded", a.loaded},
                    {"at_once", a.at_once},
                    {"running", a.running},
                    {"full", a.full},
                    {"step_seconds", a.step_seconds},
                    {"jobs", to_json(a.jobs)}});
}

HostAbout about_of(const std::string& text) {
  HostAbout out;
  const json from = parsed_or_discarded(text);
  if (!from.is_object()) return out;
  read_member(from, "role", out.role), read_member(from, "version", out.version);
  read_member(from, "device", out.device), read_member(from, "cards", out.cards);
  read_member(from, "memory_bytes", out.memory_bytes), read_member(from, "models", out.models);
  read_member(from, "loras", out.loras), read_member(from, "loaded", out.loaded);
  read_member(from, "at_once", out.at_once), read_member(from, "running", out.running);
  read_member(from, "full", out.full);
  read_member(from, "step_seconds", out.step_seconds);
  read_jobs(from, out.jobs);
  return out;
}

Presence::Presence(queue::JobTable& table, std::function<Host()> self)
    : table_(table), self_(std::move(self)) {}

Presence::~Presence() { stop(); }

void Presence::start() {
  announce();
  thread_ = std::thread([this] { run(); });
}

void Presence::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  try {
    table_.depart(announced_);
  } catch (const Error& e) {
    warn("this host is said to be there until the end of its lease: {}", e.message());
  }
}

void Presence::announce() {
  Host self = self_();
  self.row.about = to_text(self.about);
  table_.announce(self.row);
  announced_ = self.row;
  {
    const std::lock_guard lock(mutex_);
    const auto since = std::chrono::steady_clock::now() - read_;
    if (!hosts_.empty() && since < kBetweenReadsForAHost * hosts_.size()) return;
  }
  read();
}

void Presence::read() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<Host> hosts;
  for (queue::HostRow& row : table_.hosts()) {
    HostAbout about = about_of(row.about);
    hosts.push_back({std::move(row), std::move(about)});
  }
  std::ranges::sort(hosts, {}, [](const Host& host) { return host.row.name; });
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts), read_ = now;
}

void Presence::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, kBetweenAnnouncements, [&] { return ending_ || urgent_; });
    if (ending_) return;
    changed_.wait_for(lock, kBetweenUrgent, [&] { return ending_; });
    urgent_ = false;
    if (ending_) return;
    lock.unlock();
    try {
      announce();
    } catch (const Error& e) {  // what was read of the others stays until the table is back
      warn("this host cannot be announced, which is tried again: {}", e.message());
    }
    lock.lock();
  }
}

void Presence::announce_now() {
  {
    const std::lock_guard lock(mutex_);
    urgent_ = true;
  }
  changed_.notify_all();
}

bool Presence::look_again() try {
  {
    const std::lock_guard lock(mutex_);
    if (std::chrono::steady_clock::now() - read_ < kBetweenSecondLooks) return true;
  }
  read();
  return true;
} catch (const Error& e) {
  warn("the other hosts cannot be read: {}", e.message());
  return false;
}

// One caller reads, and others who ask meanwhile get what is there.
void Presence::refresh_jobs() {
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto least = std::max(kBetweenLooksAtJobs, kBetweenReadsForAHost * static_cast<int>(hosts_.size()));
    if (now - std::max(read_, looked_) < least) return;
    looked_ = now;
  }
  look_again();
}

std::vector<Host> Presence::hosts() const {
  std::vector<Host> alive;
  const std::lock_guard lock(mutex_);
  std::ranges::copy_if(hosts_, std::back_inserter(alive), [](const Host& host) { return host.row.alive; });
  return alive;
}

std::vector<Host> Presence::with_files(const std::string& files) const {
  std::vector<Host> found;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(hosts_, std::back_inserter(found),
                         [&](const Host& host) { return host.row.files == files; });
  }
  std::ranges::stable_sort(found, {}, [](const Host& host) { return host.row.silent_seconds; });
  std::ranges::stable_partition(found, [](const Host& host) { return host.row.alive; });
  return found;
}

std::optional<JobAbout> Presence::job_of(const std::string& host, const std::string& id) {
  refresh_jobs();
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(hosts_, host, [](const Host& one) { return one.row.name; });
  if (it == hosts_.end() || !it->row.alive) return std::nullopt;
  const auto found = it->about.jobs.find(id);
  if (found == it->about.jobs.end()) return std::nullopt;
  JobAbout job = found->second;
  const double since = std::chrono::duration<double>(std::chrono::steady_clock::now() - read_).count();
  if (job.eta_seconds >= 0) job.eta_seconds = std::max(job.eta_seconds - it->row.silent_seconds - since, 0.0);
  return job;
}

void StepTimes::measured(const json& event) {
  if (event.value("event", "") != "step" || event.value("stage", "") != "denoise") return;
  const std::string key = event.value("model", "") + " " + event.value("size", "");
  const double seconds = event.value("seconds", 0.0);
  const std::lock_guard lock(mutex_);
  if (const auto it = means_.find(key); it != means_.end())
    it->second += kNewestStep * (seconds - it->second);
  else if (means_.size() < kMostSteps)
    means_[key] = seconds;
}

std::map<std::string, double> StepTimes::means() const {
  const std::lock_guard lock(mutex_);
  return means_;
}

}  // namespace tachy::workers
