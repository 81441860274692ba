#include "workers/plan_cache.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace tachy::workers {

const PlanCache::Entry* PlanCache::find(const std::string& shape) {
  const double now = monotonic_seconds();
  std::erase_if(entries_, [&](const auto& entry) { return now - entry.second.made > fresh_seconds_; });
  const auto it = entries_.find(shape);
  return it == entries_.end() ? nullptr : &it->second;
}

void PlanCache::put(const Key& key, std::shared_ptr<const Planned> planned) {
  const auto older = [](const auto& one, const auto& other) { return one.second.made < other.second.made; };
  if (entries_.size() >= kMost) entries_.erase(std::min_element(entries_.begin(), entries_.end(), older));
  entries_[key.shape] = {key.rest, std::move(planned), monotonic_seconds()};
}

std::shared_ptr<const Planned> PlanCache::get(const Key& key, const Make& make) {
  std::string flight;
  std::unique_lock lock(mutex_);
  while (true) {
    const Entry* const there = find(key.shape);
    if (there && (!there->planned->prepared || there->rest == key.rest)) return there->planned;
    // A shape that is known to fit is planned quickly, and only equal requests wait for one another.
    flight = there ? key.shape + '\n' + key.rest : key.shape;
    if (flights_.insert(flight).second) break;
    landed_.wait(lock);
  }
  lock.unlock();
  std::shared_ptr<const Planned> planned;
  try {
    planned = std::make_shared<const Planned>(make());
  } catch (...) {
    lock.lock();
    flights_.erase(flight);
    landed_.notify_all();
    throw;
  }
  lock.lock();
  put(key, planned);
  flights_.erase(flight);
  landed_.notify_all();
  return planned;
}

}  // namespace tachy::workers
