#include "tensor/peak_watch.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "tensor/memory.h"
#include "tensor/streaming_memory.h"

namespace tachy {
namespace {

// Buffers may be released after the end of main(), so nothing here has a destructor that does anything.
std::mutex g_mutex;
PeakWatch* g_first = nullptr;
std::atomic<int> g_count{0};

const void* counter_of(DeviceMemory* device) {
  if (!device) return nullptr;
  const StreamingMemory* const memory = StreamingMemory::of(device);
  return memory ? static_cast<const void*>(&memory->ledger) : device;
}

}  // namespace

PeakWatch::PeakWatch(DeviceMemory* device)
    : of_(counter_of(device)), before_(device ? device->live_bytes() : Buffer::live_bytes()), peak_(before_) {
  const std::lock_guard lock(g_mutex);
  next_ = g_first, g_first = this;
  ++g_count;
}

PeakWatch::~PeakWatch() {
  const std::lock_guard lock(g_mutex);
  PeakWatch** at = &g_first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  --g_count;
}

size_t PeakWatch::peak() const {
  const std::lock_guard lock(g_mutex);
  return peak_;
}

void PeakWatch::note(const void* of, size_t live) {
  if (g_count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(g_mutex);
  for (PeakWatch* watch = g_first; watch; watch = watch->next_)
    if (watch->of_ == of) watch->peak_ = std::max(watch->peak_, live);
}

}  // namespace tachy
