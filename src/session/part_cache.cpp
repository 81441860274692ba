#include "session/part_cache.h"

#include <chrono>

#include "base/error.h"

namespace tachy {

PartCache::Handle PartCache::get(const PartKey& key, bool keep, const StopFlags& stop, const Load& load) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[key];  // entries are never erased
  for (;;) {
    Handle there = entry.last.lock();
    if (there && keep) entry.kept = there;
    if (there) return there;
    if (!entry.loading) break;
    const int counted = stop.held() ? 0 : 1;
    entry.awaited += counted;
    loaded_.wait_for(lock, std::chrono::milliseconds(20));
    entry.awaited -= counted;
    stop.throw_if_cancelled();
  }
  entry.loading = true;
  lock.unlock();
  Handle made;
  const auto finish = [&] {
    lock.lock();
    entry.loading = false;
    entry.last = made;
    if (keep) entry.kept = made;
    loaded_.notify_all();
  };
  try {
    made = load();
  } catch (...) {
    finish();  // those who wait then try to load it themselves
    throw;
  }
  finish();
  return made;
}

const std::atomic<int>& PartCache::awaited(const PartKey& key) {
  const std::lock_guard lock(mutex_);
  return entries_[key].awaited;
}

uint64_t PartCache::idle_bytes(const std::set<PartKey>& except) const {
  const std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [key, entry] : entries_)
    if (idle(entry) && !except.contains(key)) total += entry.kept->bytes;
  return total;
}

void PartCache::drop_idle(const std::function<bool(const PartKey&)>& which) {
  std::vector<Handle> dropped;  // released after the lock is given up
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_)
    if (idle(entry) && which(key)) dropped.push_back(std::move(entry.kept)), entry.kept.reset();
}

uint64_t PartCache::held_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& [key, entry] : entries_)
    if (const Handle there = entry.last.lock()) total += there->bytes;
  return total;
}

}  // namespace tachy
