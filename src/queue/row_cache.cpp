#include "queue/row_cache.h"

#include <utility>

namespace tachy::queue {

std::shared_ptr<const JobRow> RowCache::get(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = rows_.find(id);
  return it == rows_.end() ? nullptr : it->second;
}

uint64_t RowCache::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void RowCache::put(JobRow row, uint64_t changes) {
  auto kept = std::make_shared<const JobRow>(std::move(row));
  const std::lock_guard lock(mutex_);
  if (changes != changes_) return;
  if (rows_.size() >= kMostRows) rows_.erase(rows_.begin());
  rows_.insert_or_assign(kept->id, kept);
}

void RowCache::drop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  rows_.erase(id);
}

void RowCache::drop_all() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  rows_.clear();
}

}  // namespace tachy::queue
