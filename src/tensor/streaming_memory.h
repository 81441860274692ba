// What a device's memory does besides (see device_memory.h): uploads that are made piece by piece in
// page-locked memory, copies that run beside the compute stream, and a ledger of who holds what. src/cuda
// implements it for a GPU, tests on the host.
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
  // Writes bytes [begin, begin + count) of what is uploaded to `piece`.
  using MakePiece = std::function<void(void* piece, size_t begin, size_t count)>;

  virtual ~StreamingMemory() = default;
  // The same object, or null for a device that cannot.
  static StreamingMemory* of(DeviceMemory* memory) { return dynamic_cast<StreamingMemory*>(memory); }

  virtual size_t free_bytes() const = 0;  // of the device, for anybody
  // As upload(), of what `make` writes piece by piece, each while the one before is on its way.
  virtual void upload_pieces(void* to, size_t bytes, const MakePiece& make) = 0;
  // Many at once, their pieces made by the pool's threads beside each other and beside the copies: `make` is
  // called from any thread, for several pieces at a time, which begin at multiples of 4 KiB.
  struct Upload {
    void* to = nullptr;
    size_t bytes = 0;
    MakePiece make;
  };
  virtual void upload_all(std::span<const Upload> uploads, ThreadPool& pool) = 0;

  // Page-locks host memory for copy_beside; throws out_of_memory when the system does not allow it.
  virtual void pin(void* host, size_t bytes) = 0;
  virtual void unpin(void* host) noexcept = 0;
  // A copy from page-locked memory that begins when what is queued now is done
  // and runs beside what is queued later; `mark` (0 or 1) stands for its end
  // until it is used again. May be captured in a graph if the wait is, too.
  static constexpr int kMarks = 2;
  virtual void copy_beside(void* to, const void* pinned, size_t bytes, int mark) = 0;
  virtual void wait_beside(int mark) = 0;  // what is queued later waits for that copy

  // A copy to the host, queued behind what is queued now; `mark` (0 to kFetches - 1) stands for its end until it is used
  // again. Only into page-locked memory does it return before the copy is made.
  static constexpr int kFetches = 4;
  virtual void fetch(void* pinned, const void* from, size_t bytes, int mark) = 0;
  // Whether that copy is made. Throws device if what was queued before it failed.
  virtual bool fetched(int mark) = 0;

  // Called between pieces of work (runtime/pace.h): waits where the host is further ahead of the device than
  // a run may take to stop. While a graph is captured: nothing.
  virtual void pace() {}
  // checksum_of (base/checksum.h) of bytes on the device, made there; waits for what was queued before.
  virtual uint64_t checksum(const void* device, size_t bytes) = 0;

  MemoryLedger ledger;  // of its allocations

  // `verify_upload` (nn/upload_check.h). A tensor of a file has been written to `to`, or, of a block that
  // passes through slots, to `image` on the host; and: blocks are compared with their images whenever they
  // arrive.
  struct Uploaded {
    Tensor to, source;
    void* image = nullptr;
  };
  std::function<void(const Uploaded&)> uploaded;
  // The same of one that came for a product and will not stay: called while it is there, by any session's thread.
  std::function<void(const Uploaded&)> visited;
};

// What this thread allocates on a device while it lives is shown under this label.
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
