// A record of what a device's memory holds: the bytes and their highest value, which tests compare with the
// plan, and the bytes by label ("denoise: weights"), for messages about a shortage of memory. Several threads
// may allocate and release at once.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace tachy {

class MemoryLedger {
 public:
  void add(const void* p, size_t bytes);
  void remove(const void* p) noexcept;

  size_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  size_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = live_;
  }

  // Calls visit(pointer, bytes, label) for each allocation.
  template <class Visit>
  void each(Visit&& visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [p, entry] : entries_) visit(p, entry.bytes, entry.label);
  }

  // One line per label, the largest first, such as "  denoise: weights        26.9 GB in 825".
  std::string table() const;

  inline static thread_local std::string label = "other";  // label of this thread's next allocations

 private:
  struct Entry {
    size_t bytes = 0;
    std::string label;
  };
  mutable std::mutex mutex_;
  std::map<const void*, Entry> entries_;
  size_t live_ = 0, peak_ = 0;
};

}  // namespace tachy
