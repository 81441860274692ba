// Further abilities of a device's memory (see device_memory.h): uploads that are made piece by piece in
// page-locked memory, copies that run beside the compute stream, and a ledger of its allocations. src/cuda
// implements them for a GPU, and tests do so on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "tensor/device_memory.h"
#include "tensor/memory_ledger.h"
#include "tensor/tensor.h"

namespace tachy {

class StreamingMemory {
 public:
  // Called to write bytes [begin, begin + count) of an upload to `piece`.
  using MakePiece = std::function<void(void* piece, size_t begin, size_t count)>;

  virtual ~StreamingMemory() = default;
  // Returns the same object, or null if the device lacks these abilities.
  static StreamingMemory* of(DeviceMemory* memory) { return dynamic_cast<StreamingMemory*>(memory); }

  virtual size_t free_bytes() const = 0;  // memory of the device that any process may still take
  // Like upload(), but `make` writes the bytes piece by piece while the previous piece is being copied.
  virtual void upload_pieces(void* to, size_t bytes, const MakePiece& make) = 0;
  // Makes many uploads at once. The pool's threads make pieces in parallel with one another and
  // with the copies: `make` is called from any thread, for several pieces at a time, which
  // begin at multiples of 4 KiB. An upload of up to kPieceBytes is one piece on a GPU.
  static constexpr size_t kPieceBytes = size_t{2} << 20;
  struct Upload {
    void* to = nullptr;
    size_t bytes = 0;
    MakePiece make;
  };
  virtual void upload_all(std::span<const Upload> uploads, ThreadPool& pool) = 0;

  // Page-locks host memory for copy_beside; throws `out_of_memory` if the system does not allow it.
  virtual void pin(void* host, size_t bytes) = 0;
  virtual void unpin(void* host) noexcept = 0;
  // Copies from page-locked memory. The copy begins when the work queued so far is done, and runs in parallel
  // with work that is queued later. `mark` (0 or 1) identifies the copy's end until the mark is used again.
  // The copy may be captured in a graph together with its wait.
  static constexpr int kMarks = 2;
  virtual void copy_beside(void* to, const void* pinned, size_t bytes, int mark) = 0;
  virtual void wait_beside(int mark) = 0;  // makes work queued later wait for that copy

  // Copies to the host after the work queued so far. `mark` (0 to kFetches - 1) identifies the copy's end
  // until the mark is used again. If the host's memory is not page-locked, the call waits for the copy.
  static constexpr int kFetches = 4;
  virtual void fetch(void* pinned, const void* from, size_t bytes, int mark) = 0;
  // Says whether the copy with this mark is done. Throws `device` if work queued before it failed.
  virtual bool fetched(int mark) = 0;

  // Called between pieces of work (runtime/pace.h). It waits if the host has queued more work than a run may
  // take to stop. It does nothing while a graph is captured.
  virtual void pace() {}
  // Returns checksum_of (base/checksum.h) of bytes on the device. It is computed there after the work queued
  // before.
  virtual uint64_t checksum(const void* device, size_t bytes) = 0;

  MemoryLedger ledger;  // what this memory has allocated

  // Used by `verify_upload` (nn/upload_check.h). It is called when a tensor of a file has been written to
  // `to`, or to `image` on the host if its block passes through slots. If it is set, such blocks are also
  // compared with their images whenever they arrive.
  struct Uploaded {
    Tensor to, source;
    void* image = nullptr;
  };
  std::function<void(const Uploaded&)> uploaded;
  // Does the same for a tensor that is on the device only for one product. It is called while the tensor is
  // there, by any session's thread.
  std::function<void(const Uploaded&)> visited;
};

// While it lives, this thread's allocations on a device are listed under this label.
class MemoryLabel {
 public:
  explicit MemoryLabel(std::string label) : before_(std::move(label)) { before_.swap(MemoryLedger::label); }
  ~MemoryLabel() { before_.swap(MemoryLedger::label); }
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;

 private:
  std::string before_;
};

}  // namespace tachy
