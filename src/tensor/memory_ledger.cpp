#include "tensor/memory_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/env.h"
#include "tensor/peak_watch.h"

namespace tachy {

void MemoryLedger::add(const void* p, size_t bytes) {
  const std::lock_guard lock(mutex_);
  entries_[p] = {bytes, label};
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  PeakWatch::note(this, live_);
}

void MemoryLedger::remove(const void* p) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(p);
  if (it == entries_.end()) return;
  live_ -= it->second.bytes;
  entries_.erase(it);
}

std::string MemoryLedger::table() const {
  struct Row {
    std::string label;
    size_t bytes = 0, count = 0;
  };
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const auto& [p, entry] : entries_) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.label == entry.label; });
    if (row == rows.end()) row = rows.insert(rows.end(), {entry.label});
    row->bytes += entry.bytes, ++row->count;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  std::string out;
  for (const Row& row : rows)
    out += fmt::format("  {:<28}{:>12} in {}\n", row.label, human_bytes(row.bytes), row.count);
  return out +
         fmt::format("  {:<28}{:>12}, at most {} so far", "together", human_bytes(live_), human_bytes(peak_));
}

}  // namespace tachy
