#include "queue/polled_rows.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace tachy::queue {
namespace {

constexpr std::chrono::milliseconds kConfirmedFor{4'500};  // less than a beat of a host, which is 5 s
constexpr std::chrono::seconds kAskedFor{30};              // clients ask again after 10 s or sooner
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr size_t kAtOnce = 500;  // rows of one question

size_t bytes_of(const JobRow& row) {
  size_t bytes = sizeof(JobRow) + 200;  // with what the map takes
  for (const std::string* text :
       {&row.request, &row.settings, &row.facts, &row.needs, &row.why, &row.error.message})
    bytes += text->capacity();
  return bytes;
}

}  // namespace

PolledRows::PolledRows(Changed changed, Interval interval)
    : changed_(std::move(changed)), interval_(std::move(interval)), thread_([this] { watch(); }) {}

PolledRows::~PolledRows() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<const JobRow> PolledRows::get(const std::string& id) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto it = rows_.find(id);
  if (it == rows_.end() || now - it->second.confirmed > kConfirmedFor) return nullptr;
  it->second.asked = now;
  return it->second.row;
}

PolledRows::Moment PolledRows::now() const {
  const std::lock_guard lock(mutex_);
  return {changes_, Clock::now()};
}

void PolledRows::put(JobRow row, std::string version, const Moment& before) {
  Kept kept{.row = nullptr, .version = std::move(version), .confirmed = before.time, .asked = before.time};
  kept.bytes = bytes_of(row);
  kept.row = std::make_shared<const JobRow>(std::move(row));
  const std::lock_guard lock(mutex_);
  if (before.changes != changes_) return;
  if (const auto it = rows_.find(kept.row->id); it != rows_.end()) erase(it);
  while (!rows_.empty() && bytes_ + kept.bytes > kMostBytes) erase(rows_.begin());
  bytes_ += kept.bytes;
  if (rows_.empty()) wake_.notify_all();
  const std::string& id = kept.row->id;
  rows_.emplace(id, std::move(kept));
}

void PolledRows::drop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  if (const auto it = rows_.find(id); it != rows_.end()) erase(it);
}

void PolledRows::drop_all() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  rows_.clear(), bytes_ = 0;
}

void PolledRows::erase(std::unordered_map<std::string, Kept>::iterator at) {
  bytes_ -= at->second.bytes;
  rows_.erase(at);
}

void PolledRows::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    wake_.wait(lock, [&] { return ending_ || !rows_.empty(); });
    wake_.wait_for(lock, interval_(rows_.size()), [&] { return ending_; });
    if (ending_) return;
    lock.unlock();
    look();
    lock.lock();
  }
}

// While the database is away nothing is confirmed, and whoever asks is told by it.
void PolledRows::look() try {
  const std::vector<Seen> all = asked_lately();
  for (size_t begin = 0; begin < all.size(); begin += kAtOnce) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<Seen> some(first,
                                 first + static_cast<std::ptrdiff_t>(std::min(kAtOnce, all.size() - begin)));
    const auto at = Clock::now();
    confirm(some, changed_(some), at);
  }
} catch (const Error&) {
}

std::vector<PolledRows::Seen> PolledRows::asked_lately() {
  std::vector<Seen> seen;
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  for (auto it = rows_.begin(); it != rows_.end();) {
    const auto one = it++;
    if (now - one->second.asked > kAskedFor)
      erase(one);
    else
      seen.push_back({one->first, one->second.version});
  }
  return seen;
}

// A row that was put meanwhile has another version, or was read later.
void PolledRows::confirm(const std::vector<Seen>& rows, const std::vector<std::string>& changed,
                         Clock::time_point at) {
  const std::unordered_set<std::string> gone(changed.begin(), changed.end());
  const std::lock_guard lock(mutex_);
  for (const Seen& seen : rows) {
    const auto it = rows_.find(seen.id);
    if (it == rows_.end() || it->second.version != seen.version) continue;
    if (gone.contains(seen.id))
      erase(it);
    else
      it->second.confirmed = std::max(it->second.confirmed, at);
  }
}

}  // namespace tachy::queue
