#include "tensor/pinned_slots.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/memory.h"

namespace tachy {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

bool PinnedSlots::make(StreamingMemory& memory, size_t bytes, int count) {
  if (host_ && room_ >= bytes && count_ >= count) return locked();
  release();
  room_ = (bytes + kPage - 1) / kPage * kPage, count_ = count;
  const size_t all = room_ * static_cast<size_t>(count);
  host_ = static_cast<uint8_t*>(os::allocate_aligned(all, kPage));
  check(host_ != nullptr, ErrorCode::out_of_memory, "frames: no {} of host memory", human_bytes(all));
  try {
    memory.pin(host_, all);
    locked_ = &memory;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    log_topic("frames", "{} of host memory could not be page-locked: each frame is waited for",
              human_bytes(all));
  }
  return locked();
}

void PinnedSlots::release() noexcept {
  if (locked_) locked_->unpin(host_);
  os::free_aligned(host_);
  locked_ = nullptr, host_ = nullptr, room_ = 0, count_ = 0;
}

}  // namespace tachy
