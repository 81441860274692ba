#include "cuda/absent_gpu.h"

#include "base/error.h"
#include "tensor/streaming_memory.h"

namespace tachy::cuda {
namespace {

constexpr size_t kContextBytes = size_t{600} << 20;  // about the size of CUDA's own context

class AbsentGpu final : public Gpu, public StreamingMemory {
 public:
  explicit AbsentGpu(const GpuInfo& facts) { info_ = facts, captures_ = false; }

  size_t free_bytes() const override {
    return info_.memory_bytes > kContextBytes ? info_.memory_bytes - kContextBytes : 0;
  }
  size_t live_bytes() const override { return 0; }
  size_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
  void release(void*, size_t) noexcept override {}
  void unpin(void*) noexcept override {}

  void* allocate(size_t) override { missing(); }
  void upload(void*, const void*, size_t) override { missing(); }
  void download(void*, const void*, size_t) override { missing(); }
  void copy(void*, const void*, size_t) override { missing(); }
  void fill(void*, int, size_t) override { missing(); }
  void synchronize() override { missing(); }
  void upload_pieces(void*, size_t, const MakePiece&) override { missing(); }
  void upload_all(std::span<const Upload>, ThreadPool&) override { missing(); }
  void pin(void*, size_t) override { missing(); }
  void copy_beside(void*, const void*, size_t, int) override { missing(); }
  void wait_beside(int) override { missing(); }
  void fetch(void*, const void*, size_t, int) override { missing(); }
  bool fetched(int) override { missing(); }
  uint64_t checksum(const void*, size_t) override { missing(); }

 private:
  [[noreturn]] void missing() const {
    fail(ErrorCode::unsupported, "{} is not here: it can only be planned for", info_.name);
  }
};

}  // namespace

std::unique_ptr<Gpu> absent_gpu(const GpuInfo& facts) { return std::make_unique<AbsentGpu>(facts); }

bool is_absent(const Gpu* gpu) { return dynamic_cast<const AbsentGpu*>(gpu) != nullptr; }

}  // namespace tachy::cuda
