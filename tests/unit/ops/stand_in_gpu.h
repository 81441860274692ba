// A GPU that can be asked but cannot run anything: it shows an op's refusals and its choice of implementation
// without a real GPU.
#pragma once

#include <cstdlib>

#include "cuda/gpu.h"
#include "tensor/streaming_memory.h"

namespace tachy::test {

class StandInGpu : public cuda::Gpu {
 public:
  size_t free_bytes() const override { return 0; }
  void* allocate(size_t bytes) override { return std::malloc(bytes); }
  void release(void* p, size_t) noexcept override { std::free(p); }
  void upload(void*, const void*, size_t) override {}
  void download(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void fill(void*, int, size_t) override {}
  void synchronize() override {}
  size_t live_bytes() const override { return 0; }
  size_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
};

// For a stand-in to which weights are uploaded in pieces, and nothing else is streamed.
class StandInStreaming : public StreamingMemory {
 public:
  void pin(void*, size_t) override {}
  void unpin(void*) noexcept override {}
  void copy_beside(void*, const void*, size_t, int) override {}
  void wait_beside(int) override {}
  void fetch(void*, const void*, size_t, int) override {}
  bool fetched(int) override { return true; }
  uint64_t checksum(const void*, size_t) override { return 0; }
};

}  // namespace tachy::test
