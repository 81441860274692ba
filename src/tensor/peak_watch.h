// Notes the most bytes that a memory holds while the watch lives: to say what a run really took, beside what was
// planned for it. Several may watch the same memory at once, and nobody's watch disturbs the counters of Buffer and
// MemoryLedger.
#pragma once

#include <cstddef>

#include "tensor/device_memory.h"

namespace tachy {

class PeakWatch {
 public:
  // `device` is what is watched, or null for all Buffers on the host. It must outlive the watch.
  explicit PeakWatch(DeviceMemory* device);
  ~PeakWatch();
  PeakWatch(const PeakWatch&) = delete;
  PeakWatch& operator=(const PeakWatch&) = delete;

  size_t before() const { return before_; }  // bytes that were held when the watch began
  size_t peak() const;

  // The counters call this after each allocation: `of` is a device's ledger, or null for the host.
  static void note(const void* of, size_t live);

 private:
  const void* of_;
  size_t before_, peak_;
  PeakWatch* next_ = nullptr;
};

}  // namespace tachy
