// Further abilities of a device's memory (see device_memory.h): uploads that are made piece by piece in
// page-locked memory, copies that run beside the compute stream, and a ledger of who holds what. src/cuda
// implements it for a GPU, tests implement it on the host.
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
  // Writes bytes [begin, begin + count) of an upload to `piece`.
  using MakePiece = std::function<void(void* piece, size_t begin, size_t count)>;

  virtual ~StreamingMemory() = default;
  // The same object, or null for a device that lacks these abilities.
  static StreamingMemory* of(DeviceMemory* memory) { return dynamic_cast<StreamingMemory*>(memory); }

  virtual size_t free_bytes() const = 0;  // free memory of the device, for any process
  // Like upload(), for bytes that `make` writes piece by piece, each while the one before is being copied.
  virtual void upload_pieces(void* to, size_t bytes, const MakePiece& make) = 0;
  // Makes many uploads at once. The pool's threads make pieces in parallel with one another and
  // with the copies: `make` is called from any thread, for several pieces at a time, which
  // begin at multiples of 4 KiB.
  struct Upload {
    void* to = nullptr;
    size_t bytes = 0;
    MakePiece make;
  };
  virtual void upload_all(std::span<const Upload> uploads, ThreadPool& pool) = 0;

  // Page-locks host memory for copy_beside; throws `out_of_memory` if the system does not allow it.
  virtual void pin(void* host, size_t bytes) = 0;
  virtual void unpin(void* host) noexcept = 0;
  // Copies from page-locked memory, beginning when the work queued so far is done, in parallel with work
  // queued later. `mark` (0 or 1) stands for the copy's end until it is used again. The copy may be captured
  // in a graph if the wait is, too.
  static constexpr int kMarks = 2;
  virtual void copy_beside(void* to, const void* pinned, size_t bytes, int mark) = 0;
  virtual void wait_beside(int mark) = 0;  // makes work queued later wait for that copy

  // Copies to the host, after the work queued so far. `mark` (0 to kFetches - 1) stands for the copy's end
  // until it is used again. It returns before the copy is made only if the host's memory is page-locked.
  static constexpr int kFetches = 4;
  virtual void fetch(void* pinned, const void* from, size_t bytes, int mark) = 0;
  // Whether that copy is done. Throws `device` if earlier work in the queue failed.
  virtual bool fetched(int mark) = 0;

  // Called between pieces of work (runtime/pace.h). It waits if the host is further ahead of the device than
  // a run may take to stop. It does nothing while a graph is captured.
  virtual void pace() {}
  // checksum_of (base/checksum.h) of bytes on the device, computed there; waits for the work queued before.
  virtual uint64_t checksum(const void* device, size_t bytes) = 0;

  MemoryLedger ledger;  // what this memory has allocated

  // For `verify_upload` (nn/upload_check.h): called when a tensor of a file has been written to `to` or, in a
  // block that passes through slots, to `image` on the host. If it is set, blocks are also compared with
  // their images whenever they arrive.
  struct Uploaded {
    Tensor to, source;
    void* image = nullptr;
  };
  std::function<void(const Uploaded&)> uploaded;
  // The same for a tensor that is only on the device for a product: called while it is there, by any
  // session's thread.
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
