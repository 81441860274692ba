// One GPU: its facts, its memory and the compute stream (a queue) on which all of a generation's work is
// queued. One thread at a time uses it, which may be any: every function makes the GPU current
// (current_device.h). There is no CUDA header here, so that host code that only passes a Gpu around compiles
// without the toolkit. Kernels and wrappers of vendor libraries include cuda/runtime.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tensor/device_memory.h"

namespace tachy::cuda {

struct GpuInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  size_t memory_bytes = 0, l2_bytes = 0, shared_bytes = 0;  // shared_bytes: the most that one block can have
  int driver = 0, runtime = 0;                              // versions in CUDA's numbering, such as 13000
  int capability() const { return major * 10 + minor; }
};

class Gpu : public DeviceMemory {
 public:
  const GpuInfo& info() const { return info_; }
  void* stream() const { return stream_; }     // a cudaStream_t
  bool captures() const { return captures_; }  // whether work on that queue can become a graph
  Device device() const override { return Device::cuda(info_.index); }
  virtual size_t free_bytes() const = 0;

  // State of a vendor library's wrapper (handles, plans), the blocks' board (board.h) and the kernels'
  // counters (attention_tally.h), each made when it is first needed.
  struct Extra {
    virtual ~Extra() = default;
  };
  std::unique_ptr<Extra> cublaslt, cudnn, board, tally;

 protected:
  GpuInfo info_;
  void* stream_ = nullptr;
  bool captures_ = true;
};

// 90 for capability 9.0; nothing without a GPU.
inline std::optional<int> capability_of(const Gpu* gpu) {
  return gpu ? std::optional(gpu->info().capability()) : std::nullopt;
}

// The number of GPUs. If there are none, `why` (if given) tells the reason: no driver, too old a driver, no
// device, or a build without CUDA.
int gpu_count(std::string* why = nullptr);

// A queue that somebody else made and keeps, such as PyTorch's current stream. Our work is then queued among
// its owner's, in order, and neither side needs to wait for the other.
struct OutsideQueue {
  void* stream = nullptr;  // a cudaStream_t of that GPU; null is CUDA's default stream, PyTorch's usual one
};

// `queue` is used in place of one of our own. It must live longer than the Gpu, which waits for it, but
// neither destroys nor changes it. On CUDA's default stream no graph can be captured (Gpu::captures). Throws
// `unsupported` (no such GPU, and what to do), `invalid_argument` (a queue of another GPU) or `device`.
std::unique_ptr<Gpu> open_gpu(int index = 0, std::optional<OutsideQueue> queue = {});

}  // namespace tachy::cuda
