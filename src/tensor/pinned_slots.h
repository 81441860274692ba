// Page-locked host memory in equal slots, into which a device copies while it goes on computing
// (StreamingMemory::fetch). Locking takes milliseconds, so it is kept for later users.
#pragma once

#include <memory>

#include "tensor/streaming_memory.h"

namespace tachy {

class PinnedSlots {
 public:
  PinnedSlots() = default;
  PinnedSlots(const PinnedSlots&) = delete;
  PinnedSlots& operator=(const PinnedSlots&) = delete;
  ~PinnedSlots() { release(); }

  // Makes `count` slots of at least `bytes`, unless there are enough of them already. No copy into them may be under way.
  // Returns whether they are page-locked; if the system does not allow that, they are plain memory, and copies into them
  // are waited for. `memory` must outlive this object or its release().
  bool make(StreamingMemory& memory, size_t bytes, int count);
  void release() noexcept;

  uint8_t* slot(int i) const { return host_ + static_cast<size_t>(i) * room_; }
  size_t room() const { return room_; }  // bytes of a slot
  bool locked() const { return locked_ != nullptr; }

 private:
  StreamingMemory* locked_ = nullptr;
  uint8_t* host_ = nullptr;
  size_t room_ = 0;
  int count_ = 0;
};

}  // namespace tachy
