// Uploads from ordinary host memory. They pass through two page-locked halves on a queue of their own, so
// that reading the file (and widening or narrowing its values) overlaps with the copy to the device. Small
// uploads share a half, and use the compute queue itself, because nothing would overlap. If many are made at
// once, the same memory is a ring of small slots: each thread fills one while others are being copied.
#pragma once

#include <array>
#include <mutex>
#include <span>

#include "cuda/side_queue.h"
#include "tensor/streaming_memory.h"

namespace tachy::cuda {

class Staging {
 public:
  // `side` and `compute` must outlive it. The page-locked memory is allocated when it is first needed.
  Staging(SideQueue& side, cudaStream_t compute, int device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The device must be the current one (current_device.h).
  void upload_pieces(void* to, size_t bytes, const StreamingMemory::MakePiece& make);
  void upload_all(std::span<const StreamingMemory::Upload> uploads, ThreadPool& pool);

 private:
  static constexpr size_t kHalfBytes = size_t{32} << 20;
  static constexpr size_t kSlotBytes = StreamingMemory::kPieceBytes;
  static constexpr size_t kSlotsOfHalf = kHalfBytes / kSlotBytes;
  static constexpr size_t kSmallBytes = size_t{256} << 10;

  // A piece of the page-locked memory; the thread that holds the mutex fills it.
  struct Slot {
    std::mutex mutex;
    cudaEvent_t done = nullptr;  // its last copy
  };

  void allocate();
  void leave_half();
  void send_through_slot(size_t s, const StreamingMemory::Upload& upload, size_t begin, size_t count);

  SideQueue& side_;
  cudaStream_t compute_;
  int device_;
  cudaEvent_t done_[2];
  void* halves_[2] = {};
  int half_ = 0;
  size_t used_ = 0;          // bytes used of the half
  bool on_compute_ = false;  // copies from the half are in the compute queue
  std::array<Slot, 2 * kSlotsOfHalf> slots_;
};

}  // namespace tachy::cuda
